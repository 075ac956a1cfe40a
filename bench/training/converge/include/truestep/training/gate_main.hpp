#pragma once

#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::training {

/// The system with `check --converge`, where it says how its candidates are trained; else as it is.
[[nodiscard]] gate::System with_training(gate::System system);

/// The main function of a gate of your own (truestep/gate/gate_main.hpp) over these systems, with
/// --converge.
[[nodiscard]] int gate_main(int count, char** values, std::vector<gate::System> systems);

} // namespace truestep::training
