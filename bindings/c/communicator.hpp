// The C handles of a communicator and of a group of ranks that are threads.
#pragma once

#include <memory>
#include <stdexcept>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/problem/error.hpp>

#include "outcome.hpp"

struct truestep_communicator {
    std::shared_ptr<truestep::distributed::Communicator> communicator;
    bool sums = true; ///< has a reduce-scatter
};

struct truestep_group {
    truestep::distributed::InProcessGroup group;
    truestep::distributed::InProcessPeers peers;
};

namespace truestep::abi {

/// Takes a rank's place in a group, which is given out once.
template <class Take>
[[nodiscard]] auto place_of(const Take& take) {
    try {
        return take();
    } catch (const std::logic_error& error) { // the rank is not in the group, or was given out before
        throw Error(error.what());
    }
}

} // namespace truestep::abi
