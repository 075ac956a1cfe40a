#pragma once

#include <chrono>

#include <mpi.h>

#include <truestep/distributed/mpi.hpp>

namespace truestep::distributed {

/// A rank that waits must poll, for MPI moves data only inside its calls, but it must not keep the core
/// from a rank that has work to do: it yields, and once nothing has come for a while, it sleeps. A poll
/// that took long has moved data.
class Patience {
  public:
    explicit Patience(std::chrono::milliseconds timeout) : deadline_(start_ + timeout) {}

    /// True when it is time to look at the watch.
    bool pause();

    [[nodiscard]] bool over() const { return last_look_ > deadline_; }

  private:
    using Clock = std::chrono::steady_clock;

    Clock::time_point start_ = Clock::now();
    Clock::time_point deadline_;
    Clock::time_point idle_since_ = start_;
    Clock::time_point last_pause_ = start_;
    Clock::time_point last_look_ = start_;
};

/// Waits in the set-up of a communicator. Some rank may have failed before it came here: even this has a
/// timeout, and ends the job. `ranks` is what the new communicator is made from.
void wait_in_set_up(MPI_Request request, MPI_Comm ranks, const MpiOptions& options);

/// Of all ranks together; its errors are returned.
[[nodiscard]] MPI_Comm duplicate_ranks(MPI_Comm ranks, const MpiOptions& options);

/// Throws std::logic_error unless MPI runs.
void check_mpi_runs();

} // namespace truestep::distributed
