// Communicators and Peers on the caller's own MPI_Comm; this header needs mpi.h.
#pragma once

#include <mpi.h>

#include <truestep/distributed/mpi.hpp>

namespace truestep::distributed {

/// Uses a duplicate of the given communicator: some of the processes, or another order of ranks.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm ranks, MpiOptions options = {});
/// The groups, and the Peers, of these ranks.
[[nodiscard]] std::vector<int> mpi_machine_groups(MPI_Comm ranks);
[[nodiscard]] std::unique_ptr<Peers> make_mpi_peers(MPI_Comm ranks, MpiOptions options = {});

} // namespace truestep::distributed
