// Dispatches truestep's command line to its commands and to the programs that belong to it.
#include "commands.hpp"
#include "training.hpp"

#include <algorithm>
#include <array>

#include <truestep/gate/command_line.hpp>
#include <truestep/gate/manual.hpp>
#include <truestep/report/environment.hpp>

namespace truestep::tool {

namespace {

/// Separate programs that belong to the tool.
constexpr std::array<const char*, 2> own_programs{"model", "train"};

/// Lists the programs that exist, and the option that describes all.
void add_descriptions(CLI::App& app, int& status, gate::OwnPrograms& programs) {
    for (const std::string name : own_programs)
        if (const auto program = gate::find_program(name); !program.empty()) {
            programs[name] = program;
            app.add_subcommand(name, gate::ask(program, "--says"));
        }
    const auto add = [&](const std::string& name, const std::string& says, const std::string& footer,
                         std::string (*made)(const CLI::App&, const gate::OwnPrograms&)) {
        CLI::App* command = app.add_subcommand(name, says);
        command->footer(footer);
        command->callback([&app, &status, &programs, made] {
            std::fputs(made(app, programs).c_str(), stdout);
            status = all_passed;
        });
    };
    add("completion", "completion of subcommands and options for bash",
        "cmake --install puts it where bash finds it.\nExample:\n  source <(truestep completion)",
        gate::bash_completion);
    add("man", "this help as a page for man",
        "cmake --install puts it where man finds it.\nExample:\n  truestep man >truestep.1",
        gate::manual_page);
}

/// If the first argument names another program, this process becomes that program.
int run(CLI::App& app, int& status, std::vector<std::string> arguments) {
    const std::string name = arguments.size() > 1 && !arguments[1].starts_with('-') ? arguments[1] : "";
    gate::OwnPrograms programs;
    if (app.get_subcommands([&](const CLI::App* one) { return one->get_name() == name; }).empty()) {
        if (const auto program = gate::find_program(name); !program.empty()) {
            arguments.front() += "-" + name;
            arguments.erase(arguments.begin() + 1);
            return gate::become(program, std::move(arguments));
        }
        if (std::ranges::find(own_programs, name) != own_programs.end())
            return gate::complain(app, gate::missing_program(name));
        add_descriptions(app, status, programs);
    }
    return gate::run_command_line(app, arguments, status);
}

} // namespace

} // namespace truestep::tool

int main(int count, char** values) {
    using namespace truestep::tool;
    const std::vector<std::string> arguments(values, values + count);
    int status = bad_input;
    CLI::App app("Finds out whether an implementation of a communication-efficient optimizer is right.",
                 "truestep");
    app.set_version_flag("--version", "truestep " + truestep::report::version());
    app.require_subcommand(1);
    app.footer("'truestep COMMAND --help' describes one command, with examples.");
    add_verify(app, status, arguments);
    add_check(app, status, arguments);
    add_planted(app, status, arguments);
    add_report(app, status);
    add_record(app, status, arguments);
    add_diff(app, status);
    add_fingerprints(app, status, arguments);
    add_collectives(app, status, arguments);
    add_join(app, status);
    add_timeline(app, status);
    add_info(app, status);
    return run(app, status, arguments);
}
