#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// Subcommands that are separate programs, like git's, so that the tool can be built without them.

namespace truestep::gate {

/// The programs' files, by subcommand.
using OwnPrograms = std::map<std::string, std::filesystem::path>;

/// The file of the program for `truestep NAME`: TOOL-NAME or truestep-NAME beside the running executable
/// TOOL, else truestep-NAME in PATH. Empty if there is none.
[[nodiscard]] std::filesystem::path find_program(const std::string& name);
/// The message for one of our own programs that is missing.
[[nodiscard]] std::string missing_program(const std::string& name);
/// Replaces this process by the program. Returns only if that fails, with the exit status, after a message.
[[nodiscard]] int become(const std::filesystem::path& program, std::vector<std::string> arguments);
/// The program's answer to "--says", "--manual-section" or "--completion-branches".
[[nodiscard]] std::string ask(const std::filesystem::path& program, const std::string& what);

/// The main function of the program for `truestep NAME`, whose subcommand `add` adds. It takes the
/// arguments behind NAME, and answers ask().
[[nodiscard]] int subcommand_main(
    const std::string& name, int count, char** values,
    const std::function<void(CLI::App&, int& status, const std::vector<std::string>& arguments)>& add);

} // namespace truestep::gate
