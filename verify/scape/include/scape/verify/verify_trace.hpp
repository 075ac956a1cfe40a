#pragma once

#include <filesystem>

#include <scape/verify/results.hpp>
#include <scape/verify/trace.hpp>
#include <scape/verify/verdict.hpp>

namespace scape::verify {

/// Checks a trace of SCAPE or AdamS against the reference. Throws scape::Error if the trace cannot be read,
/// holds nothing to compare, or cannot be had at the level or from the place that is asked for.
[[nodiscard]] TraceVerdict verify_trace(const std::filesystem::path& path, const VerifyOptions& options);

} // namespace scape::verify
