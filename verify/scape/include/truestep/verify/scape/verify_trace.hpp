// Verifying traces of SCAPE and AdamS against the reference.
#pragma once

#include <filesystem>
#include <string>

#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/scape/trace.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify::scape {

/// Checks a trace of SCAPE or AdamS against the reference. Throws truestep::Error if the trace
/// cannot be read, holds nothing to compare, or the requested level or start is not available.
[[nodiscard]] TraceVerdict verify_trace(const std::filesystem::path& path, const VerifyOptions& options);

/// Tries each known bug on the step at which a trace of SCAPE or AdamS first differs, and on the
/// steps after it, from the recorded state before each. Returns the bug that makes the recorded
/// values, or "".
[[nodiscard]] std::string known_bug(const TraceVerdict& verdict);

/// The norm of a step's mean gradient before clipping, which the reference computes from the
/// recorded state before the step and its mask. The trace has to hold that state.
[[nodiscard]] double norm_before_clipping(const TraceReader& trace, Index step);

} // namespace truestep::verify::scape
