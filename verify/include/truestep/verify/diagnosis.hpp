#pragma once

#include <string>
#include <vector>

#include <truestep/verify/traces.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify {

/// What may be wrong with a run that has failed, one line each; none of one that has not. First the known
/// mistake that makes the recorded values within rounding, then what these have in common. A run that fails
/// at EXACT is also held to a level with bounds, so that a rounding does not hide a mistake behind it.
[[nodiscard]] std::vector<std::string> what_may_be_wrong(const Traces& traces, const TraceVerdict& verdict,
                                                         const VerifyOptions& options);

/// The lines as they stand in the text below a verdict; "" where there are none.
[[nodiscard]] std::string text_of_diagnosis(const std::vector<std::string>& lines);

} // namespace truestep::verify
