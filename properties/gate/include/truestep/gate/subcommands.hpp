#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// Subcommands that are programs of their own, as git's are: who builds the tool need not build them.

namespace truestep::gate {

/// Their files, by the subcommands' names.
using OwnPrograms = std::map<std::string, std::filesystem::path>;

/// The file of the program for `truestep NAME`: TOOL-NAME or truestep-NAME beside the running executable
/// TOOL, else truestep-NAME in PATH. Empty if there is none.
[[nodiscard]] std::filesystem::path find_program(const std::string& name);
/// What is said where a program of the house is needed that is not there.
[[nodiscard]] std::string missing_program(const std::string& name);
/// The process becomes this program. Returns only if that fails, with the exit status, having said why.
[[nodiscard]] int become(const std::filesystem::path& program, std::vector<std::string> arguments);
/// What the program says when it is asked for "--says", "--manual-section" or "--completion-branches".
[[nodiscard]] std::string ask(const std::filesystem::path& program, const std::string& what);

/// The main function of the program for `truestep NAME`, whose subcommand `add` adds. It takes the
/// arguments behind NAME, and answers ask().
[[nodiscard]] int subcommand_main(
    const std::string& name, int count, char** values,
    const std::function<void(CLI::App&, int& status, const std::vector<std::string>& arguments)>& add);

} // namespace truestep::gate
