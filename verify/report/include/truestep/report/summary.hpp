#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::report {

/// The help of `--summary`.
constexpr const char* summary_help =
    "add a table in Markdown to this file, such as $GITHUB_STEP_SUMMARY; on GitHub each failure is also "
    "printed as an annotation";

/// The headline of these results of `check` and `planted`, and a table of what did not pass.
[[nodiscard]] std::string summary(const std::vector<nlohmann::ordered_json>& results);
/// Adds it to the file; does nothing if the path is empty. Throws truestep::Error.
void add_summary(const std::string& path, const std::vector<nlohmann::ordered_json>& results);

/// The same of recorded runs (runs.hpp), with a row for each.
[[nodiscard]] std::string runs_summary(const nlohmann::ordered_json& runs);
void add_runs_summary(const std::string& path, const nlohmann::ordered_json& runs);

} // namespace truestep::report
