#pragma once

/// What a program calls of MPI, by MPI's own profiling interface: mpi_counted.cpp stands before it.
namespace mpi_counted {

/// Calls since the start in which ranks take part all together, of every kind that MPI has.
[[nodiscard]] long collectives();

/// From now on no test shows that a piece of a message has arrived, but for the first of each.
void hold_all_but_first_pieces(bool hold);

} // namespace mpi_counted
