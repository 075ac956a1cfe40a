// The manual page and the shell completion, made from the command line's own description.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include <truestep/gate/subcommands.hpp>

namespace truestep::gate {

/// `--help` of all subcommands, as a page for man(1).
[[nodiscard]] std::string manual_page(const CLI::App& app, const OwnPrograms& programs);
/// The section of the page for one subcommand, `path`: "truestep model".
[[nodiscard]] std::string manual_section(const CLI::App& command, const std::string& path);

/// Completion of subcommands and options for bash. Everything else completes as files.
[[nodiscard]] std::string bash_completion(const CLI::App& app, const OwnPrograms& programs);
/// The completion's branches for one subcommand, `path`: "model".
[[nodiscard]] std::string completion_branches(const CLI::App& command, const std::string& path);

} // namespace truestep::gate
