#pragma once

#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::gate {

/// The main function of your own gate: `truestep check`'s command line over these systems, with matrix,
/// properties, seeds, --case, --save, --json, --report, a time budget, threads and MPI. Returns the exit
/// status: 0 all passed, 1 a difference, 2 bad input or usage, 3 under mpirun if a rank failed.
[[nodiscard]] int gate_main(int count, char** values, const std::vector<System>& systems);

} // namespace truestep::gate
