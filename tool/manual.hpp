#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace truestep::tool {

/// What `--help` of all subcommands says, as a page for man(1).
[[nodiscard]] std::string manual_page(const CLI::App& app);

/// Completion of subcommands and options, for bash. Else it completes files.
[[nodiscard]] std::string bash_completion(const CLI::App& app);

} // namespace truestep::tool
