#pragma once

#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::training {

/// Adds `check --converge` to a system that says how its candidates are trained; leaves others
/// unchanged.
[[nodiscard]] gate::System with_training(gate::System system);

/// The main function of a gate of your own (truestep/gate/gate_main.hpp) over these systems, with
/// --converge.
[[nodiscard]] int gate_main(int count, char** values, std::vector<gate::System> systems);

} // namespace truestep::training
