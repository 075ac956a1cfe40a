#include <scape/gate/gate_main.hpp>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>

#include <scape/gate/check_command.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/report/environment.hpp>

#include "check.hpp"

namespace scape::gate {

namespace {

int parse(CLI::App& app, int count, char** values, const std::string& name, const int& status) {
    try {
        app.parse(count, values);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        const std::string text = error.what();
        std::fprintf(stderr, "%s: %s (see --help)\n", name.c_str(),
                     text.substr(0, text.find('\n')).c_str());
        return bad_input;
    } catch (const Error& error) {
        std::fprintf(stderr, "%s: %s\n", name.c_str(), one_line(error.what()).c_str());
        return bad_input;
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "%s: not enough memory for this problem; make it smaller\n", name.c_str());
        return bad_input;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: unexpected: %s\n", name.c_str(), one_line(error.what()).c_str());
        return bad_input;
    }
    return status;
}

} // namespace

int gate_main(int count, char** values, const std::vector<System>& systems) {
    const std::vector<std::string> arguments(values, values + count);
    const std::string name = arguments.empty()
                                 ? std::string("gate")
                                 : std::filesystem::path(arguments.front()).filename().string();
    int status = bad_input;
    CLI::App app("The gate: every implementation beside the reference, and against its properties.", name);
    app.set_version_flag("--version", "scape " + report::version());
    set_up_check(app, status, arguments, systems, arguments.empty() ? name : shell_word(arguments.front()));
    return parse(app, count, values, name, status);
}

} // namespace scape::gate
