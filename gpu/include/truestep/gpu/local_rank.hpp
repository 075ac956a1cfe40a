#pragma once

#include <array>
#include <functional>
#include <span>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>

// Chooses which of its machine's devices a rank takes.

namespace truestep::gpu {

/// A rank's machine, and its local rank there as its launcher reports it.
struct HostLocation {
    static constexpr int nothing = -1;
    std::array<char, 256> machine{};
    int told = nothing;
};

/// The value of the first variable that is set: SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK (Open
/// MPI), MPI_LOCALRANKID and PMI_LOCAL_RANK (MPICH and its descendants), LOCAL_RANK (torchrun).
/// HostLocation::nothing if none is. Throws truestep::Error if it is not a number. `variable` replaces
/// getenv in tests.
[[nodiscard]] int told_by_launcher(const std::function<const char*(const char*)>& variable);

/// The local rank that the launchers report, if every rank of this machine has one and no two have
/// the same. Otherwise the number of lower ranks on this machine. Two launchers can mislead: a
/// process inherits variables of an outer launcher (mpirun in a SLURM job), and threads share those
/// of their process. All ranks then report the same number, and are counted instead.
[[nodiscard]] int local_rank(std::span<const HostLocation> lodgings, int rank);

/// The same for ranks that ask each other; all of them call it. The rank's number itself would not
/// do, since a launcher may deal ranks out to the machines in turn.
[[nodiscard]] int local_rank(distributed::Communicator& ranks);
[[nodiscard]] int local_rank(distributed::Peers& ranks);

} // namespace truestep::gpu
