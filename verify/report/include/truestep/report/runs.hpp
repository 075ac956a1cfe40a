#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace truestep::report {

// Recorded runs: {"command", "environment", "traces": [...]}, each trace as verify::json_page() has it,
// with "path", "command" (repeats it), "seconds" and "fits" (what may be wrong); or with "error", if it
// could not be checked. Whatever is lacking is left out.

/// One self-contained page: each run's verdict, where it parts from the reference, and what it did.
[[nodiscard]] std::string runs_page(const nlohmann::ordered_json& runs);

/// A suite a run, a test case a row of its verdict, and one for the whole.
[[nodiscard]] std::string runs_junit(const nlohmann::ordered_json& runs);

} // namespace truestep::report
