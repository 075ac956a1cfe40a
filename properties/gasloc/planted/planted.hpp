#pragma once

#include <memory>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/gate/system.hpp>

namespace truestep::properties::gasloc {

/// Mistakes as they have been made, most of them in public code: section 18, and a few more; then those of
/// code for devices, in ours.
[[nodiscard]] std::vector<gate::Mistake> mistakes();
/// An implementation with that mistake, a second, plain one where it is none of devices; 0 has none.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
planted(int number, const std::shared_ptr<const gate::Group>& group);

} // namespace truestep::properties::gasloc
