#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// What every program of ours does with its command line, whatever its subcommands are.

namespace truestep::gate {

/// Parses, which does the work, and returns the exit status: `status`, which the work has left, or 2 and
/// one line on standard error that begins with the app's name: bad usage, with what may have been meant,
/// bad input, too little memory, and a standard output that did not take everything.
[[nodiscard]] int run_command_line(CLI::App& app, const std::vector<std::string>& arguments,
                                   const int& status);
/// That line; returns 2.
[[nodiscard]] int complain(const CLI::App& app, const std::string& text);

} // namespace truestep::gate
