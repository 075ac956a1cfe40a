#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include <truestep/gate/subcommands.hpp>

namespace truestep::gate {

/// What `--help` of all subcommands says, as a page for man(1).
[[nodiscard]] std::string manual_page(const CLI::App& app, const OwnPrograms& programs);
/// What it holds of one subcommand, `path`: "truestep model".
[[nodiscard]] std::string manual_section(const CLI::App& command, const std::string& path);

/// Completion of subcommands and options, for bash. Else it completes files.
[[nodiscard]] std::string bash_completion(const CLI::App& app, const OwnPrograms& programs);
/// What it holds of one subcommand, `path`: "model".
[[nodiscard]] std::string completion_branches(const CLI::App& command, const std::string& path);

} // namespace truestep::gate
