// A verdict as text and as JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <truestep/verify/diff.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify {

/// The table of a verdict and, if it failed, the first divergence, on several lines.
[[nodiscard]] std::string text_report(const TraceVerdict& verdict);

/// The place of a divergence in one line: "step 3, phase residual, residual of rank 1, tensor wq,
/// index 5 (coordinate 5)".
[[nodiscard]] std::string place(const Divergence& divergence, const problem::Layout& layout,
                                const Words& words = {});

[[nodiscard]] std::string text_report(const TraceDifference& difference, const std::string& a,
                                      const std::string& b);

/// The verdict for --json; its schema is in docs/using-the-tool.md.
[[nodiscard]] nlohmann::ordered_json json_report(const TraceVerdict& verdict);

/// The same with the run's plots, for report::runs_page().
[[nodiscard]] nlohmann::ordered_json json_page(const TraceVerdict& verdict);

} // namespace truestep::verify
