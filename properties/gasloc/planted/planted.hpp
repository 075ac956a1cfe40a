// The known bugs of GASLoC.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/gate/system.hpp>

namespace truestep::properties::gasloc {

/// Bugs that have been made, most of them in public code (section 18), and a few more; then those of device
/// code, planted in ours.
[[nodiscard]] std::vector<gate::KnownBug> known_bugs();
/// An implementation with that known bug, or without any for 0. It is the second, plain one unless the bug
/// is in device code.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
planted(int number, const std::shared_ptr<const gate::Group>& group);

/// The known bugs that make what a trace holds after the round in which it first differs from the reference
/// (gate::System::what_fits). The run is repeated from its start.
[[nodiscard]] std::vector<std::string> what_fits(const std::filesystem::path& trace,
                                                 const gate::FirstDifference& parted,
                                                 gate::Gradients gradients);

} // namespace truestep::properties::gasloc
