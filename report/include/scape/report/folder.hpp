#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace scape::report {

/// index.html and junit.xml in a folder that is made. Throws scape::Error.
void write_folder(const std::string& folder, const std::vector<nlohmann::ordered_json>& results);

/// The same of recorded runs (runs.hpp).
void write_runs_folder(const std::string& folder, const nlohmann::ordered_json& runs);

/// Throws scape::Error where that fails.
void write_text(const std::string& path, const std::string& text);

/// Writes a result for --json. Throws scape::Error where that fails.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

} // namespace scape::report
