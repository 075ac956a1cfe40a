#pragma once

#include <array>
#include <functional>
#include <span>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>

// Which of its machine's devices a rank takes.

namespace truestep::gpu {

/// Where a rank runs, and what its launcher says that it is there.
struct Lodging {
    static constexpr int nothing = -1;
    std::array<char, 256> machine{};
    int told = nothing;
};

/// The first of these that is set: SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK (Open MPI), MPI_LOCALRANKID
/// and PMI_LOCAL_RANK (MPICH and those that come from it), LOCAL_RANK (torchrun); Lodging::nothing where
/// none is. Throws truestep::Error where it is no number. `variable`: as getenv, for tests.
[[nodiscard]] int told_by_launcher(const std::function<const char*(const char*)>& variable);

/// Of lodgings by rank: what the launchers say, if they say it to all ranks of this one's machine and to
/// no two the same; else how many ranks of lower number run there. A process inherits what its
/// launcher's own launcher said (mpirun within a job of SLURM's), and threads share what their process
/// was told: then all are told the same, and are counted.
[[nodiscard]] int local_rank(std::span<const Lodging> lodgings, int rank);

/// The same of ranks that ask each other: all of them call it. Not the rank itself, for a launcher may have
/// dealt the ranks out to the machines in turn.
[[nodiscard]] int local_rank(distributed::Communicator& ranks);
[[nodiscard]] int local_rank(distributed::Peers& ranks);

} // namespace truestep::gpu
