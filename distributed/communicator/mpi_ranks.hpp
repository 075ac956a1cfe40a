#pragma once

#include <chrono>

#include <mpi.h>

#include <truestep/distributed/mpi.hpp>

namespace truestep::distributed {

/// A waiting rank must poll, because MPI moves data only inside its calls, but it must not keep the
/// core from a rank with work to do: it yields, and after a while without arrivals it sleeps. A
/// poll that took long has moved data.
class Patience {
  public:
    explicit Patience(std::chrono::milliseconds timeout) : deadline_(start_ + timeout) {}

    /// True when it is time to look at the watch.
    bool pause();

    [[nodiscard]] bool over() const { return last_look_ > deadline_; }
    [[nodiscard]] std::chrono::milliseconds waited() const {
        return std::chrono::duration_cast<std::chrono::milliseconds>(last_look_ - start_);
    }

  private:
    using Clock = std::chrono::steady_clock;

    Clock::time_point start_ = Clock::now();
    Clock::time_point deadline_;
    Clock::time_point idle_since_ = start_;
    Clock::time_point last_pause_ = start_;
    Clock::time_point last_look_ = start_;
};

/// Waits in the set-up of a communicator. Some rank may have failed before: so even this has a
/// timeout, and ends the job. `ranks` is the communicator that is being duplicated.
void wait_in_set_up(MPI_Request request, MPI_Comm ranks, const MpiOptions& options);

/// Duplicates a communicator, with all ranks together. The duplicate returns its errors.
[[nodiscard]] MPI_Comm duplicate_ranks(MPI_Comm ranks, const MpiOptions& options);

/// Throws std::logic_error unless MPI runs.
void check_mpi_runs();

} // namespace truestep::distributed
