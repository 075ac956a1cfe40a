#pragma once

#include <chrono>
#include <functional>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/in_process_peers.hpp>

#include "peers/peer.hpp"

namespace truestep::peers {

/// run_ranks() for peers: ranks are threads with a communicator and with peers.
inline void run_linked(int ranks, const std::function<void(const Links&)>& function,
                       std::chrono::milliseconds timeout = distributed::default_timeout) {
    distributed::InProcessPeers group(ranks, timeout);
    distributed::run_ranks(
        ranks,
        [&](Communicator& all) {
            const auto each = group.peers(all.rank());
            function({all, *each});
        },
        timeout);
}

} // namespace truestep::peers
