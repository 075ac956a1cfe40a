#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <truestep/gate/exit_status.hpp>

namespace truestep::tool {

using gate::all_passed;
using gate::bad_input;
using gate::difference;

/// Each adds one subcommand. Its callback does the work and stores the exit status in `status`;
/// `arguments` are the process's own, for the record.
void add_verify(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_check(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_planted(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_report(CLI::App& app, int& status);
void add_record(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_diff(CLI::App& app, int& status);
void add_fingerprints(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_collectives(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_join(CLI::App& app, int& status);
void add_timeline(CLI::App& app, int& status);
void add_info(CLI::App& app, int& status);

/// Prints the name of a written trace, unless it was written in place: that may be standard output.
void say_written(const char* what, const std::string& output);

} // namespace truestep::tool
