#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <truestep/gate/system.hpp>

// Commands with a subcommand for each system: `truestep check gasloc ...`.

namespace truestep::gate {

/// Adds the options of a command for one system. `words` name it in commands: " gasloc", or "" for the
/// first, which needs no name.
using SetUpCommand = std::function<void(CLI::App& command, const System& system, const std::string& words)>;

/// Gives `command` a subcommand for each system for which `has` is true. A single system gets the options
/// at `command` itself. --system names a system, too, which help does not show.
void by_system(
    CLI::App& command, const std::vector<System>& systems, const SetUpCommand& set_up,
    const std::function<bool(const System&)>& has = [](const System&) { return true; });

/// The subcommand that `command` means if no system is named, or null if it has none for systems.
[[nodiscard]] const CLI::App* default_command(const CLI::App& command);

/// The command with its parents: "truestep check gasloc".
[[nodiscard]] std::string full_name(const CLI::App& command);

/// The subcommands of `command`, also before anything is parsed.
[[nodiscard]] std::vector<const CLI::App*> subcommands_of(const CLI::App& command);

/// The command that the first of these words name, and the place of the word behind them. The first word is
/// the program's.
[[nodiscard]] std::pair<const CLI::App*, std::size_t> named_command(const CLI::App& app,
                                                                    const std::vector<std::string>& words);

/// The words with the system inserted behind the command if --system named it, or nothing did. Throws
/// truestep::Error if --system names none.
[[nodiscard]] std::vector<std::string> with_system(const CLI::App& app, std::vector<std::string> words);

} // namespace truestep::gate
