#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// What all our programs do with their command line.

namespace truestep::gate {

/// Parses, which does the work, and returns the exit status: the one that the work left in `status`, or 2
/// after one line on standard error that begins with the app's name. That happens for bad usage, with a
/// suggestion, for bad input, for too little memory, and for a standard output that did not take
/// everything.
[[nodiscard]] int run_command_line(CLI::App& app, const std::vector<std::string>& arguments,
                                   const int& status);
/// Prints that line; returns 2.
[[nodiscard]] int complain(const CLI::App& app, const std::string& text);

} // namespace truestep::gate
