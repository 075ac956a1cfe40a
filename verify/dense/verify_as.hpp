#pragma once

#include <vector>

#include <truestep/verify/dense/traces.hpp>

namespace truestep::verify::dense {

/// Compares these results of a trace with the reference of this problem, which need not be the one
/// that its config claims.
[[nodiscard]] verify::TraceVerdict verify_as(const TraceReader& trace, const Problem& problem,
                                             const verify::VerifyOptions& options,
                                             const std::vector<Result>& results);

} // namespace truestep::verify::dense
