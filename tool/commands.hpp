#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace truestep::tool {

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
void add_fingerprints(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_join(CLI::App& app, int& status);
void add_model(CLI::App& app, int& status);
void add_train(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_info(CLI::App& app, int& status);
/// `man` and `completion`: of whatever stands before them, and of themselves.
void add_manual(CLI::App& app, int& status);

/// Names a trace that has been written, but where it was written in place: that may be standard output.
void say_written(const char* what, const std::string& output);

} // namespace truestep::tool
