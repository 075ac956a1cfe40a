// The search for the known bug that explains a recorded run of GASLoC.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::properties::gasloc {

/// The known bugs that make what a trace holds after the round in which it first differs from the reference
/// (gate::System::what_fits). The run is repeated from its start.
[[nodiscard]] std::vector<std::string> what_fits(const std::filesystem::path& trace,
                                                 const gate::FirstDifference& parted,
                                                 gate::Gradients gradients);

} // namespace truestep::properties::gasloc
