#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>

namespace truestep::distributed {

/// Ranks that are MPI processes. This header needs no mpi.h; for your own MPI_Comm see
/// mpi_comm.hpp.
///
/// Faults end the whole job: one line on standard error, "truestep: rank 2 did not answer within 60
/// s in a payload exchange; all ranks end", then MPI_Abort with this status. One rank prints it,
/// the lowest of those that wait. abort() does the same with its reason and does not return. So
/// does an exchange that is dropped before it has been waited for; to have the text of an error in
/// that line, call abort() before its exchanges are destroyed. mpirun itself notices a killed
/// process (Open MPI names the rank, MPICH the process); otherwise it is found missing at the
/// timeout.
constexpr int mpi_abort_status = 3;

struct MpiOptions {
    std::chrono::milliseconds timeout{60'000};
    /// The greatest count or displacement. Larger data goes in pieces. Tests make it small.
    std::size_t largest_count = std::numeric_limits<int>::max();
    /// For peers: whether a rank that has left with a reason ends the job when all others have
    /// ended. Otherwise it just ends, for programs in which that is normal.
    bool ends_job = true;
};

/// Starts and ends MPI, unless it is running already. If an exception leaves the session, it ends
/// the whole job: the ranks would wait for each other.
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

/// A communicator on a duplicate of MPI_COMM_WORLD. All ranks call it, and it waits for them. One
/// thread calls the communicator. MPI has to be started before and ended after it.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi_communicator(MpiOptions options = {});

/// The number of ranks on each machine (ranks that share memory), for the setting `groups`. All
/// ranks call it, and it waits for them, without a timeout. Throws truestep::Error on all of them
/// if the ranks of a machine are not consecutive.
[[nodiscard]] std::vector<int> mpi_machine_groups();

/// Messages between pairs of these ranks. All ranks call it, and it waits for them; nothing
/// afterwards involves all of them together. One thread calls what it returns.
///
/// A message moves once its receiver has asked for it, and only inside of the sender's calls. If
/// two ranks send to each other, ask first and then send: a rank that has the other's message has
/// then been asked for its own, and may compute.
///
/// Destroying the Peers is leave(""). It waits, within the timeout, until what this rank has sent
/// has been taken, or never will be. MPI_Finalize waits until all ranks have destroyed theirs.
///
/// If a rank has failed, those that do not need it continue to their end, or until the timeout has
/// passed since. Then one line is printed, "truestep: rank 2 has failed: REASON; all ranks end",
/// and the job ends with mpi_abort_status. So a rank that calls leave() with a reason, or destroys
/// its Peers because of an error, does not return from it. A killed process ends the job at once,
/// by mpirun.
[[nodiscard]] std::unique_ptr<Peers> make_mpi_peers(MpiOptions options = {});

} // namespace truestep::distributed
