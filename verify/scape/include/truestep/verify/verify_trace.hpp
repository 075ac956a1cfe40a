#pragma once

#include <filesystem>

#include <truestep/verify/results.hpp>
#include <truestep/verify/trace.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify {

/// Checks a trace of SCAPE or AdamS against the reference. Throws truestep::Error if the trace cannot be
/// read, holds nothing to compare, or cannot be had at the level or from the place that is asked for.
[[nodiscard]] TraceVerdict verify_trace(const std::filesystem::path& path, const VerifyOptions& options);

/// Of the mean gradient of a step, before it is clipped: as the reference takes it from the recorded state
/// before that step, which the trace has to hold, and its mask.
[[nodiscard]] double norm_before_clipping(const TraceReader& trace, Index step);

} // namespace truestep::verify
