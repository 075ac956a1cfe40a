// Parses any program's command line, words usage errors, and reports output that was lost.
#include <truestep/gate/command_line.hpp>
#include <truestep/gate/did_you_mean.hpp>
#include <truestep/gate/system_commands.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "check.hpp"

namespace truestep::gate {

namespace {

/// The subcommand that was being parsed.
const CLI::App& parsed_command(const CLI::App& app) {
    const auto chosen = app.get_subcommands();
    return chosen.empty() ? app : parsed_command(*chosen.front());
}

std::vector<std::string> options_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames())
            names.push_back("--" + name);
    return names;
}

/// "--law is an option of gasloc: truestep check gasloc --law ...", or "".
std::string option_of_another_system(const CLI::App& command, const std::string& option) {
    if (command.get_parent() == nullptr || default_command(*command.get_parent()) == nullptr)
        return {};
    std::string names;
    std::string example;
    for (const CLI::App* other : subcommands_of(*command.get_parent()))
        if (other->get_option_no_throw(option) != nullptr) {
            names += (names.empty() ? "" : ", ") + other->get_name();
            if (example.empty())
                example = full_name(*other) + " " + option + " ...";
        }
    return names.empty() ? names : option + " is an option of " + names + ": " + example;
}

/// The usage error, with more help than the parser's.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const CLI::App& command = parsed_command(app);
    const std::string said = error.what();
    const std::string see = " (see '" + full_name(command) + " --help')";
    const std::string line = said.substr(0, said.find('\n'));
    if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr)
        return line + see;
    const std::vector<std::string> extras = app.remaining(true);
    const auto option =
        std::ranges::find_if(extras, [](const std::string& extra) { return extra.starts_with("--"); });
    if (option == extras.end())
        return line + see;
    const std::string name = option->substr(0, option->find('='));
    const std::string others = option_of_another_system(command, name);
    return others.empty() ? line + did_you_mean(name, options_of(command)) + see : others;
}

/// The error if the next word is not a subcommand where one is required. The parser would only say that one
/// is missing.
std::string unknown_subcommand(const CLI::App& app, const std::vector<std::string>& words) {
    const auto [within, at] = named_command(app, words);
    std::vector<std::string> names;
    std::string list;
    for (const CLI::App* command : subcommands_of(*within)) {
        names.push_back(command->get_name());
        list += (list.empty() ? "" : ", ") + names.back();
    }
    if (names.empty() || at >= words.size() || words[at].starts_with('-'))
        return {};
    return (default_command(*within) == nullptr ? "there is no subcommand '" : "there is no system '") +
           one_line(words[at]) + "'" + did_you_mean(words[at], names) + " (there are " + list + ")";
}

/// Shows values as defaults, except for "[]" of an empty list.
void show_values_as_defaults(CLI::App& app) {
    for (CLI::Option* option : app.get_options([](const CLI::Option*) { return true; }))
        if (option->get_default_str() == "[]")
            option->default_str("");
    for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        show_values_as_defaults(*command);
}

int parse(CLI::App& app, std::vector<std::string> words, const int& status) {
    if (const std::string unknown = unknown_subcommand(app, words); !unknown.empty())
        return complain(app, unknown);
    show_values_as_defaults(app);
    try {
        words = with_system(app, std::move(words));
        std::reverse(words.begin() + 1, words.end()); // the parser expects them in reverse
        app.parse(std::vector<std::string>(words.begin() + 1, words.end()));
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        return complain(app, usage_error(app, error));
    } catch (const Error& error) {
        return complain(app, error.what());
    } catch (const std::bad_alloc&) {
        return complain(app, "not enough memory for this problem; make it smaller");
    } catch (const std::exception& error) {
        return complain(app, std::string("unexpected: ") + error.what());
    }
    return status;
}

/// A file opened later must not get the number of a closed standard stream, or printed text would go into
/// it.
bool standard_output_is_open() {
    const bool open_ = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return false;
    return open_;
}

/// Why not all of the output was written; "" if it was.
std::string output_lost() {
    std::cout.flush();
    const bool failed_before = std::ferror(stdout) != 0 || !std::cout;
    errno = 0;
    if (std::fflush(stdout) == 0 && !failed_before)
        return {};
    return "standard output did not take everything" +
           (errno == 0 ? std::string() : std::string(": ") + std::strerror(errno)) +
           "; send it to where there is room";
}

/// Environment variables had another prefix before the project had its name.
void warn_of_old_names() {
    constexpr std::string_view old = "SCAPE_";
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (!text.starts_with(old))
            continue;
        const std::string name(text.substr(old.size(), text.find('=') - old.size()));
        std::fprintf(stderr, "truestep: SCAPE_%s is not read any more; its name is TRUESTEP_%s\n",
                     one_line(name).c_str(), one_line(name).c_str());
    }
}

} // namespace

int complain(const CLI::App& app, const std::string& text) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), one_line(text).c_str());
    return bad_input;
}

int run_command_line(CLI::App& app, const std::vector<std::string>& arguments, const int& status) {
    if (!standard_output_is_open())
        return complain(app, "standard output is closed; redirect it, for example to /dev/null");
    warn_of_old_names();
    const int ended = parse(app, arguments, status);
    const std::string lost = output_lost();
    return lost.empty() ? ended : complain(app, lost);
}

} // namespace truestep::gate
