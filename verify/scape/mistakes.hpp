#pragma once

#include <string>

#include <truestep/verify/verdict.hpp>

namespace truestep::verify {

/// Each known mistake is made in the step at which a trace of SCAPE or AdamS first parts, and in the steps
/// after it, from the recorded state before each. The one that makes the recorded values, or "".
[[nodiscard]] std::string known_mistake(const TraceVerdict& verdict);

} // namespace truestep::verify
