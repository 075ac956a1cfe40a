// A communicator for ranks that are threads of one process, and a function that runs them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

namespace in_process {
class Group;
}

constexpr std::chrono::milliseconds default_timeout{60'000};

/// Any number of ranks as threads of one process, without set-up. Data goes by pointer from the
/// sender's buffer to the receiver's, in one copy.
///
/// Each communicator belongs to the thread of its rank: only that thread calls it and waits for its
/// exchanges. An exchange is complete once every rank has taken its part, and a rank takes only
/// inside a call, so long computations should call progress(). While it waits, a rank takes part in
/// all exchanges it has started: ranks may wait for them in different orders.
///
/// All ranks end with Aborted if a rank does not come within the timeout, destroys its communicator
/// while others still wait for it, drops an exchange before waiting for it, or starts another
/// exchange than the others, or one of other sizes.
class InProcessGroup {
  public:
    explicit InProcessGroup(int size, std::chrono::milliseconds timeout = default_timeout);

    /// Call it once for each rank. The communicator may outlive the group.
    [[nodiscard]] std::unique_ptr<Communicator> communicator(int rank);

  private:
    std::shared_ptr<in_process::Group> group_;
};

/// Runs the function on each of `size` ranks, each in its own thread, and returns when all have
/// ended. When one throws, the others are aborted at once, and this function throws its error,
/// which is the cause, instead of an Aborted of the others. (A thread cannot be killed: a rank that
/// never returns from its own code is named to the others, and this function waits for it.)
void run_ranks(int size, const std::function<void(Communicator&)>& function,
               std::chrono::milliseconds timeout = default_timeout);

} // namespace truestep::distributed
