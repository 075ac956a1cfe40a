#pragma once

#include <string>

#include <truestep/verify/verdict.hpp>

namespace truestep::gasloc {

/// Each known mistake is made in the round at which a trace of GASLoC first parts, and in the rounds after
/// it, from the recorded state before each. The one that makes the recorded values, or "".
[[nodiscard]] std::string known_mistake(const verify::TraceVerdict& verdict);

} // namespace truestep::gasloc
