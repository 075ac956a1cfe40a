// The known bugs of GASLoC.
#pragma once

#include <memory>
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

} // namespace truestep::properties::gasloc
