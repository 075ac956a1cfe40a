#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>

#include <scape/distributed/communicator.hpp>

namespace scape::distributed {

/// Ranks that are MPI processes. This header needs no mpi.h; for your own MPI_Comm see mpi_comm.hpp.
///
/// Faults end the whole job: one line on standard error, "scape: rank 2 did not answer within 60 s in a
/// payload exchange; all ranks end", then MPI_Abort with this status. One rank prints it, the lowest of
/// those that wait. abort() does the same with its reason and does not return, and so does an exchange that
/// is dropped before it has been waited for: whoever wants the text of an error in that line calls abort()
/// before its exchanges are destroyed. A process that is killed is noticed by mpirun itself (Open MPI
/// names the rank, MPICH the process), and otherwise found missing when the timeout is over.
constexpr int mpi_abort_status = 3;

struct MpiOptions {
    std::chrono::milliseconds timeout{60'000};
    /// What one count or displacement may be. What needs more goes in pieces. Tests make it small.
    std::size_t largest_count = std::numeric_limits<int>::max();
};

/// Starts MPI, and ends it, unless somebody else has started it. Left by an exception it ends the whole
/// job: the other ranks would wait for this one, and it for them.
class MpiSession {
  public:
    MpiSession(int& argument_count, char**& arguments);
    ~MpiSession();
    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;

    [[nodiscard]] int rank() const;
    [[nodiscard]] int size() const;

  private:
    bool own_ = false;
    int exceptions_;
};

/// On a duplicate of MPI_COMM_WORLD; all ranks call it, and it waits for them. One thread calls the
/// communicator. MPI has to be started before and ended after it.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi_communicator(MpiOptions options = {});

} // namespace scape::distributed
