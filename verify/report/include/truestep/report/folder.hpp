#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::report {

/// index.html and junit.xml in a folder that is made. Throws truestep::Error.
void write_folder(const std::string& folder, const std::vector<nlohmann::ordered_json>& results);

/// The same of recorded runs (runs.hpp).
void write_runs_folder(const std::string& folder, const nlohmann::ordered_json& runs);

/// To be asked before anything is done that would then be lost.
[[nodiscard]] bool can_be_written(const std::string& path);

/// The file is there whole or, as before, not at all. Throws truestep::Error where that fails, in which
/// `what` is the name of what is written.
void write_text(const std::string& path, const std::string& text, const std::string& what = "report");

/// Writes a result for --json, in the same way. Throws truestep::Error where that fails.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

} // namespace truestep::report
