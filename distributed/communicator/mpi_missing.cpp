// Replaces mpi.cpp in builds without MPI.
#include <truestep/distributed/mpi.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::distributed {

namespace {

[[noreturn]] void refuse() {
    throw Error("communicator mpi: built without MPI; run ranks as threads (in_process), or configure "
                "again where CMake finds MPI");
}

} // namespace

MpiSession::MpiSession(int&, char**&) : exceptions_(0) {
    refuse();
}
MpiSession::~MpiSession() = default;

int MpiSession::rank() const {
    refuse();
}
int MpiSession::size() const {
    refuse();
}

std::unique_ptr<Communicator> make_mpi_communicator(MpiOptions) {
    refuse();
}

std::vector<int> mpi_machine_groups() {
    refuse();
}

std::unique_ptr<Peers> make_mpi_peers(MpiOptions) {
    refuse();
}

} // namespace truestep::distributed
