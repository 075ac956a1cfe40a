// The search for the known bug that explains a recorded run of MAPL.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::properties::mapl {

/// The known bugs that make what a trace holds at the step at which it first differs from the reference
/// (gate::System::what_fits). The run begins at the recorded state, one step earlier if possible: some bugs
/// need it.
[[nodiscard]] std::vector<std::string> what_fits(const std::filesystem::path& trace,
                                                 const gate::FirstDifference& parted,
                                                 gate::Gradients gradients);

} // namespace truestep::properties::mapl
