#pragma once

#include <functional>
#include <memory>

#include <truestep/distributed/peers.hpp>

#include "outcome.hpp"

struct truestep_peers {
    std::shared_ptr<truestep::distributed::Peers> peers;
    /// Waits for what this rank has sent. Whoever has all that it asked for in a round does not wait for
    /// long: its neighbours asked before they sent.
    std::function<void()> settle = [] {};
};
