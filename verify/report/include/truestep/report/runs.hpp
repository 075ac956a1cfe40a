#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace truestep::report {

// Recorded runs: {"command", "environment", "traces": [...]}. Each trace is that of
// verify::json_page(), with "path", "command" (repeats it), "seconds" and "fits" (what may be
// wrong); or with "error", if it could not be checked. Missing parts are left out.

/// One self-contained page: each run's verdict, the place where it differs from the reference, and
/// its plots.
[[nodiscard]] std::string runs_page(const nlohmann::ordered_json& runs);

/// JUnit with a suite for each run: a test case for each row of its verdict, and one for the whole.
[[nodiscard]] std::string runs_junit(const nlohmann::ordered_json& runs);

} // namespace truestep::report
