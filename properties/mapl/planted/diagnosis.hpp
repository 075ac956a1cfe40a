#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::properties::mapl {

/// Which planted mistakes make what a trace holds at the step at which it first parts from the reference;
/// gate::System::what_fits. Begins at the recorded state, a step before where it can: some need one.
[[nodiscard]] std::vector<std::string> what_fits(const std::filesystem::path& trace,
                                                 const gate::Parted& parted, gate::Gradients gradients);

} // namespace truestep::properties::mapl
