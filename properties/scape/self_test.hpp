#pragma once

#include <string>
#include <vector>

namespace truestep::properties::scape {

/// Changes to right answers that the comparison with the reference takes for right, or a right one that it
/// does not; none, or no verdict of this gate means anything. Some milliseconds.
[[nodiscard]] std::vector<std::string> what_the_gate_does_not_see();

} // namespace truestep::properties::scape
