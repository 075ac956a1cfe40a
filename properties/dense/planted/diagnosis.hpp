// Which known bugs explain a recorded run of dense training.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::properties::dense {

[[nodiscard]] std::vector<std::string> what_fits(const std::filesystem::path& trace,
                                                 const gate::FirstDifference& parted,
                                                 gate::Gradients gradients);

} // namespace truestep::properties::dense
