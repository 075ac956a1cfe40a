// Replaces mpi_group.cpp in a build without MPI.
#include <truestep/gate/group.hpp>

#include <truestep/distributed/mpi.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gate {

std::shared_ptr<const Group> make_mpi_group(std::chrono::milliseconds timeout,
                                            std::function<std::string()>) {
    static_cast<void>(distributed::make_mpi_communicator({timeout})); // throws, naming what is missing
    throw Error("communicator mpi: built without MPI");
}

} // namespace truestep::gate
