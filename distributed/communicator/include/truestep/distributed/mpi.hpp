#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>

namespace truestep::distributed {

/// Ranks that are MPI processes. This header needs no mpi.h; for your own MPI_Comm see mpi_comm.hpp.
///
/// Faults end the whole job: one line on standard error, "truestep: rank 2 did not answer within 60 s in a
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
    /// Of peers: whether one that has left with a reason ends the job when all others have ended. Else it
    /// just ends: for programs in which that is nothing unusual.
    bool ends_job = true;
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

/// How many ranks each machine has, what shares memory: for the setting `groups`. All ranks call it, and it
/// waits for them, without a timeout. Throws truestep::Error on all of them where the ranks of a machine do
/// not follow each other.
[[nodiscard]] std::vector<int> mpi_machine_groups();

/// Messages between two of these ranks. All ranks call it, and it waits for them; nothing after it is of
/// all of them together. One thread calls what it returns.
///
/// A message goes to the receiver when that has asked for it, and inside of the sender's calls alone. Where
/// two ranks send to each other, ask first and then send: who has the other's message has been asked for
/// its own by then, and may compute.
///
/// Destroying the Peers is leave(""). It waits, within the timeout, until what this rank has sent has been
/// taken, or never will be. MPI_Finalize waits until all ranks have destroyed theirs.
///
/// Where a rank has failed, those that do not need it go on to their end, or until the timeout has passed
/// since. Then one line is printed, "truestep: rank 2 has failed: REASON; all ranks end", and the job ends
/// with mpi_abort_status. So who has called leave() with a reason, or destroys its Peers because of an
/// error, does not come back from that. A process that is killed ends the job at once, by mpirun.
[[nodiscard]] std::unique_ptr<Peers> make_mpi_peers(MpiOptions options = {});

} // namespace truestep::distributed
