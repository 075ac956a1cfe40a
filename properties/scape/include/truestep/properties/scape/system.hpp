#pragma once

#include <vector>

#include <truestep/gate/system.hpp>
#include <truestep/properties/scape/implementations.hpp>

namespace truestep::properties::scape {

/// SCAPE and AdamS as the gate knows a system: cases, settings, properties; nothing put to the test yet.
[[nodiscard]] gate::System system_of_properties();

/// With the implementations that stand in `candidates`, over threads or MPI.
[[nodiscard]] gate::System system_with(std::vector<Ranked> candidates);

/// The main function of a gate of your own (truestep/gate/gate_main.hpp) for implementations of SCAPE or
/// AdamS.
[[nodiscard]] int gate_main(int count, char** values, std::vector<Ranked> candidates);

} // namespace truestep::properties::scape
