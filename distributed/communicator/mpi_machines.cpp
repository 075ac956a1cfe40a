// Finds by MPI which ranks share a machine, as the sizes of groups.
#include <vector>

#include <truestep/distributed/mpi_comm.hpp>

#include "machine_groups.hpp"
#include "mpi_ranks.hpp"

namespace truestep::distributed {

std::vector<int> mpi_machine_groups(MPI_Comm ranks) {
    check_mpi_runs();
    int size = 0;
    int first = 0;
    MPI_Comm_size(ranks, &size);
    MPI_Comm_rank(ranks, &first);
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(ranks, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, machine);
    MPI_Comm_free(&machine);
    std::vector<int> firsts(static_cast<std::size_t>(size));
    MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, ranks);
    return groups_of_machines(firsts);
}

std::vector<int> mpi_machine_groups() {
    return mpi_machine_groups(MPI_COMM_WORLD);
}

} // namespace truestep::distributed
