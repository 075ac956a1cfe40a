// SCAPE and AdamS as a gate::System, and the main function of your own gate for them.
#pragma once

#include <vector>

#include <truestep/gate/system.hpp>
#include <truestep/properties/scape/implementations.hpp>

namespace truestep::properties::scape {

/// The system with cases, settings and properties, but without implementations.
[[nodiscard]] gate::System system_of_properties();

/// The system with the implementations in `candidates`, over threads or MPI.
[[nodiscard]] gate::System system_with(std::vector<ImplementationSpec> candidates);

/// The main function of your own gate (truestep/gate/gate_main.hpp) for implementations of SCAPE or AdamS.
[[nodiscard]] int gate_main(int count, char** values, std::vector<ImplementationSpec> candidates);

} // namespace truestep::properties::scape
