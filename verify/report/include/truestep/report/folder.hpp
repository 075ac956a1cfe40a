#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::report {

/// Makes a folder with index.html and junit.xml. Throws truestep::Error.
void write_folder(const std::string& folder, const std::vector<nlohmann::ordered_json>& results);

/// The same with a row for each result file in the place of their details (page.hpp).
void write_index(const std::string& folder, const std::vector<std::filesystem::path>& files,
                 const std::vector<nlohmann::ordered_json>& results);

/// The same for recorded runs (runs.hpp).
void write_runs_folder(const std::string& folder, const nlohmann::ordered_json& runs);

/// Call it before work whose result could not be saved otherwise.
[[nodiscard]] bool can_be_written(const std::string& path);

/// Writes a file completely, or leaves the earlier one. Throws truestep::Error, which names `what`,
/// on failure.
void write_text(const std::string& path, const std::string& text, const std::string& what = "report");

/// Writes a result for --json in the same way. Throws truestep::Error on failure.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

} // namespace truestep::report
