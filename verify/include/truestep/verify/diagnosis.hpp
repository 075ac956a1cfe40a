#pragma once

#include <string>
#include <vector>

#include <truestep/verify/traces.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify {

/// What may be wrong with a failed run, one line each; empty for a run that has not failed. First
/// the known bug that makes the recorded values within rounding, then what the wrong values have in
/// common. A run that fails at EXACT is also checked at a level with bounds, so that a rounding
/// does not hide a bug behind it.
[[nodiscard]] std::vector<std::string> what_may_be_wrong(const Traces& traces, const TraceVerdict& verdict,
                                                         const VerifyOptions& options);

/// The lines as text below a verdict; "" if there are none.
[[nodiscard]] std::string text_of_diagnosis(const std::vector<std::string>& lines);

} // namespace truestep::verify
