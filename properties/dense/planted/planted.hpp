// The known bugs of dense training.
#pragma once

#include <memory>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::properties::dense {

[[nodiscard]] std::vector<gate::KnownBug> known_bugs();
/// The plain implementation with that known bug, or without any for 0. Throws truestep::Error if there is
/// no such bug.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
planted(int number, const std::shared_ptr<const gate::Group>& group);

} // namespace truestep::properties::dense
