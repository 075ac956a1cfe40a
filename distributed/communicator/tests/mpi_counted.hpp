#pragma once

/// Counts a program's calls of MPI by MPI's own profiling interface: mpi_counted.cpp is linked
/// before it.
namespace mpi_counted {

/// The collective calls of every kind since the start.
[[nodiscard]] long collectives();

/// From now on, MPI's tests report only the first piece of each message as arrived.
void hold_all_but_first_pieces(bool hold);

} // namespace mpi_counted
