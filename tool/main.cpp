#include "commands.hpp"

#include <cstdio>
#include <exception>
#include <new>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/report/environment.hpp>

namespace scape::tool {

namespace {

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

int run(int count, char** values) {
    const std::vector<std::string> arguments(values, values + count);
    int status = bad_input;
    CLI::App app("Finds out whether an implementation of a communication-efficient optimizer is right.",
                 "scape");
    app.set_version_flag("--version", "scape " + report::version());
    app.require_subcommand(1);
    app.footer("'scape COMMAND --help' tells about one command, with examples.");
    add_verify(app, status, arguments);
    add_check(app, status, arguments);
    add_planted(app, status, arguments);
    add_report(app, status);
    add_record(app, status, arguments);
    add_diff(app, status);
    add_model(app, status);
    add_info(app, status);
    try {
        app.parse(count, values);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        std::fprintf(stderr, "scape: %s (see 'scape --help' and 'scape COMMAND --help')\n",
                     first_line(error.what()).c_str());
        return bad_input;
    } catch (const Error& error) {
        std::fprintf(stderr, "scape: %s\n", one_line(error.what()).c_str());
        return bad_input;
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "scape: not enough memory for this problem; make it smaller\n");
        return bad_input;
    }
    return status;
}

} // namespace

} // namespace scape::tool

int main(int count, char** values) {
    try {
        return scape::tool::run(count, values);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "scape: unexpected: %s; please report it with the command\n", error.what());
        return scape::tool::bad_input;
    }
}
