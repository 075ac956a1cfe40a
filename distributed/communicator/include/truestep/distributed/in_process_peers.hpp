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

/// Ranks that are threads of one process and send each other messages. Nothing is copied: the receiver
/// reads the very bytes that were sent, and holds the message until its Incoming is destroyed.
///
/// Each Peers, and what it receives, belongs to the thread that works for its rank. Destroying it is
/// leave("").
class InProcessPeers {
  public:
    explicit InProcessPeers(int size, std::chrono::milliseconds timeout = default_timeout);

    /// Once for each rank. It may outlive the group.
    [[nodiscard]] std::unique_ptr<Peers> peers(int rank);

  private:
    std::shared_ptr<in_process::PeerGroup> group_;
};

/// Runs the function on each of `size` ranks, each in its own thread, and returns when all have ended. One
/// that throws leaves with that reason: those that need it end, the others go on to their own end. Then the
/// first error is thrown: the cause, not the Aborted it led to in others.
void run_peers(int size, const std::function<void(Peers&)>& function,
               std::chrono::milliseconds timeout = default_timeout);

} // namespace truestep::distributed
