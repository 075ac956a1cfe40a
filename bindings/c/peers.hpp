// The C handle of a rank's peers, through which GASLoC's workers exchange messages.
#pragma once

#include <functional>
#include <memory>

#include <truestep/distributed/peers.hpp>

#include "outcome.hpp"

struct truestep_peers {
    std::shared_ptr<truestep::distributed::Peers> peers;
    /// Waits for this rank's sent messages. After it has received everything of a round, the wait
    /// is short: its neighbours asked for messages before they sent.
    std::function<void()> settle = [] {};
};
