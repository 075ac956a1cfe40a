#pragma once

#include <memory>

#include <scape/distributed/communicator.hpp>
#include <scape/distributed/in_process.hpp>
#include <scape/distributed/in_process_peers.hpp>

#include "outcome.hpp"

struct scape_communicator {
    std::shared_ptr<scape::distributed::Communicator> communicator;
    bool sums = true; ///< has a reduce-scatter
};

struct scape_group {
    scape::distributed::InProcessGroup group;
    scape::distributed::InProcessPeers peers;
};
