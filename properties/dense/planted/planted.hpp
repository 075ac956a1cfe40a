// The known bugs of dense training.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::properties::dense {

[[nodiscard]] std::vector<gate::KnownBug> known_bugs();
/// The plain implementation with that known bug, or without any for 0. Throws truestep::Error if there is
/// no such bug.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
planted(int number, const std::shared_ptr<const gate::Group>& group);

/// Those that explain a recorded run.
[[nodiscard]] std::vector<std::string> what_fits(const std::filesystem::path& trace,
                                                 const gate::FirstDifference& parted,
                                                 gate::Gradients gradients);

} // namespace truestep::properties::dense
