#pragma once

#include <memory>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/in_process_peers.hpp>

#include "outcome.hpp"

struct truestep_communicator {
    std::shared_ptr<truestep::distributed::Communicator> communicator;
    bool sums = true; ///< has a reduce-scatter
};

struct truestep_group {
    truestep::distributed::InProcessGroup group;
    truestep::distributed::InProcessPeers peers;
};
