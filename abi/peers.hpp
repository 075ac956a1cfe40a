#pragma once

#include <functional>
#include <memory>

#include <scape/distributed/peers.hpp>

#include "outcome.hpp"

struct scape_peers {
    std::shared_ptr<scape::distributed::Peers> peers;
    /// Waits for what this rank has sent. Whoever has all that it asked for in a round does not wait for
    /// long: its neighbours asked before they sent.
    std::function<void()> settle = [] {};
};
