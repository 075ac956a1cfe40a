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

/// Ranks that are threads of one process, any number of them, with no set-up. Data goes by pointer from the
/// sender's buffer to the receiver's, in one copy.
///
/// Each communicator belongs to the thread that works for its rank: that thread alone calls it and waits
/// for its exchanges. An exchange is complete once every rank has taken its part, and a rank takes only
/// inside a call, so whoever computes for long calls progress(). While it waits, a rank takes part in all
/// exchanges it has started: ranks may wait for them in different orders.
///
/// A rank that does not come within the timeout ends all with Aborted, and so does one whose communicator
/// is gone while others still wait for it, one that drops an exchange before it has been waited for, and
/// one that starts another exchange than the others, or one of other sizes.
class InProcessGroup {
  public:
    explicit InProcessGroup(int size, std::chrono::milliseconds timeout = default_timeout);

    /// Once for each rank. It may outlive the group.
    [[nodiscard]] std::unique_ptr<Communicator> communicator(int rank);

  private:
    std::shared_ptr<in_process::Group> group_;
};

/// Runs the function on each of `size` ranks, each in its own thread, and returns when all have ended. When
/// one throws, the others are aborted at once, and its error is thrown here: the cause, not the Aborted it
/// led to in others. (A thread cannot be killed: a rank that never returns from code of its own is named to
/// the others and waited for here.)
void run_ranks(int size, const std::function<void(Communicator&)>& function,
               std::chrono::milliseconds timeout = default_timeout);

} // namespace truestep::distributed
