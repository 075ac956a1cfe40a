// The gate's self-test.
#pragma once

#include <string>
#include <vector>

namespace truestep::properties::scape {

/// Changes to right answers that the comparison with the reference does not detect, or a right answer that
/// it rejects. If there are any, no verdict of this gate means anything. It takes milliseconds.
[[nodiscard]] std::vector<std::string> what_the_gate_does_not_see();

} // namespace truestep::properties::scape
