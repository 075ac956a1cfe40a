// Peers for ranks that are threads of one process, and a function that runs them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/peers.hpp>

namespace truestep::distributed {

namespace in_process {
class PeerGroup;
}

/// Ranks as threads of one process that send each other messages. Nothing is copied: the receiver
/// reads the very bytes that were sent, and holds the message until its Incoming is destroyed.
///
/// Each Peers, and what it receives, belongs to the thread of its rank. Destroying it is leave("").
class InProcessPeers {
  public:
    explicit InProcessPeers(int size, std::chrono::milliseconds timeout = default_timeout);

    /// Call it once for each rank. The Peers may outlive the group.
    [[nodiscard]] std::unique_ptr<Peers> peers(int rank);

  private:
    std::shared_ptr<in_process::PeerGroup> group_;
};

/// Runs the function on each of `size` ranks, each in its own thread, and returns when all have
/// ended. A rank that throws leaves with that reason: ranks that need it end, the others continue.
/// Then this function throws the first error, which is the cause, not an Aborted that followed from
/// it.
void run_peers(int size, const std::function<void(Peers&)>& function,
               std::chrono::milliseconds timeout = default_timeout);

} // namespace truestep::distributed
