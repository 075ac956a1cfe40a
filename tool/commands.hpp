#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace scape::tool {

/// What the process ends with. Documented in docs/using-the-tool.md and in every --help.
enum ExitStatus : int { all_passed = 0, difference = 1, bad_input = 2 };

/// Each adds one subcommand. Its callback does the work and leaves the exit status in `status`; `arguments`
/// are the process's own, for the record.
void add_verify(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_check(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_planted(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_report(CLI::App& app, int& status);
void add_record(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_diff(CLI::App& app, int& status);
void add_model(CLI::App& app, int& status);
void add_info(CLI::App& app, int& status);

/// index.html and junit.xml in a folder that is made. Throws scape::Error.
void make_report(const std::string& folder, const std::vector<nlohmann::ordered_json>& results);

/// `text` as one word of a shell's command line.
[[nodiscard]] std::string shell_word(const std::string& text);

/// Writes a result for --json. Throws scape::Error where that fails.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

} // namespace scape::tool
