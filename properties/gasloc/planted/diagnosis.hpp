#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::properties::gasloc {

/// Which planted mistakes make what a trace holds after the round in which it first parts from the
/// reference; gate::System::what_fits. The run is made from its start.
[[nodiscard]] std::vector<std::string> what_fits(const std::filesystem::path& trace,
                                                 const gate::Parted& parted, gate::Gradients gradients);

} // namespace truestep::properties::gasloc
