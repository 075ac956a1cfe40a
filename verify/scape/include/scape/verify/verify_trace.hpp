#pragma once

#include <filesystem>

#include <scape/verify/results.hpp>
#include <scape/verify/trace.hpp>
#include <scape/verify/verdict.hpp>

namespace scape::verify {

/// Checks a trace of SCAPE or AdamS against the reference. Throws scape::Error if the trace cannot be read,
/// holds nothing to compare, or cannot be had at the level or from the place that is asked for.
[[nodiscard]] TraceVerdict verify_trace(const std::filesystem::path& path, const VerifyOptions& options);

/// Of the mean gradient of a step, before it is clipped: as the reference takes it from the recorded state
/// before that step, which the trace has to hold, and its mask.
[[nodiscard]] double norm_before_clipping(const TraceReader& trace, Index step);

} // namespace scape::verify
