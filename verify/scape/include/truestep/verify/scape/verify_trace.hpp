#pragma once

#include <filesystem>
#include <string>

#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/scape/trace.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify::scape {

/// Checks a trace of SCAPE or AdamS against the reference. Throws truestep::Error if the trace cannot be
/// read, holds nothing to compare, or cannot be had at the level or from the place that is asked for.
[[nodiscard]] TraceVerdict verify_trace(const std::filesystem::path& path, const VerifyOptions& options);

/// Each known mistake is made in the step at which a trace of SCAPE or AdamS first parts, and in the steps
/// after it, from the recorded state before each. The one that makes the recorded values, or "".
[[nodiscard]] std::string known_mistake(const TraceVerdict& verdict);

/// Of the mean gradient of a step, before it is clipped: as the reference takes it from the recorded state
/// before that step, which the trace has to hold, and its mask.
[[nodiscard]] double norm_before_clipping(const TraceReader& trace, Index step);

} // namespace truestep::verify::scape
