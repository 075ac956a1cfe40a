#include <truestep/gate/command_line.hpp>
#include <truestep/gate/meant.hpp>

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

/// Of the subcommand that was being parsed.
std::vector<std::string> options_of(const CLI::App& app) {
    const auto chosen = app.get_subcommands();
    if (!chosen.empty())
        return options_of(*chosen.front());
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames())
            names.push_back("--" + name);
    return names;
}

/// What is wrong with the usage, beyond what the parser would say.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const std::string said = error.what();
    std::string line = said.substr(0, said.find('\n'));
    if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr)
        return line;
    const std::vector<std::string> extras = app.remaining(true);
    const auto option =
        std::ranges::find_if(extras, [](const std::string& extra) { return extra.starts_with("--"); });
    return option == extras.end() ? line
                                  : line + meant(option->substr(0, option->find('=')), options_of(app));
}

/// "truestep diff --help": of the subcommand that was being parsed.
std::string help_of(const CLI::App& app) {
    std::string words = app.get_name();
    for (const CLI::App* in = &app; !in->get_subcommands().empty();) {
        in = in->get_subcommands().front();
        words += " " + in->get_name();
    }
    return words + " --help";
}

/// The first word has to be a subcommand, where there are any. The parser would only say that one is
/// missing.
std::string unknown_subcommand(const CLI::App& app, int count, char** values) {
    std::vector<std::string> names;
    std::string list;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(command->get_name());
        list += (list.empty() ? "" : ", ") + names.back();
    }
    if (names.empty() || count < 2 || values[1][0] == '-' ||
        std::ranges::find(names, values[1]) != names.end())
        return {};
    return "there is no subcommand '" + one_line(values[1]) + "'" + meant(values[1], names) +
           " (there are " + list + ")";
}

int complain(const CLI::App& app, const std::string& text) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), one_line(text).c_str());
    return bad_input;
}

int parse(CLI::App& app, int count, char** values, const int& status) {
    if (const std::string unknown = unknown_subcommand(app, count, values); !unknown.empty())
        return complain(app, unknown);
    try {
        app.parse(count, values);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        return complain(app, usage_error(app, error) + " (see '" + help_of(app) + "')");
    } catch (const Error& error) {
        return complain(app, error.what());
    } catch (const std::bad_alloc&) {
        return complain(app, "not enough memory for this problem; make it smaller");
    } catch (const std::exception& error) {
        return complain(app, std::string("unexpected: ") + error.what());
    }
    return status;
}

/// A file that is opened later must not get the number of a stream that is closed: what is printed would
/// go into it.
bool standard_output_is_open() {
    const bool open_ = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return false;
    return open_;
}

/// "": it has all that was printed.
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

/// Variables of the environment had another prefix before the project had its name.
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

int run_command_line(CLI::App& app, int count, char** values, const int& status) {
    if (!standard_output_is_open())
        return complain(app, "standard output is closed; send it somewhere, such as >/dev/null");
    warn_of_old_names();
    const int ended = parse(app, count, values, status);
    const std::string lost = output_lost();
    return lost.empty() ? ended : complain(app, lost);
}

} // namespace truestep::gate
