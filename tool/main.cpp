#include "commands.hpp"

#include <truestep/gate/command_line.hpp>
#include <truestep/report/environment.hpp>

int main(int count, char** values) {
    using namespace truestep::tool;
    const std::vector<std::string> arguments(values, values + count);
    int status = bad_input;
    CLI::App app("Finds out whether an implementation of a communication-efficient optimizer is right.",
                 "truestep");
    app.set_version_flag("--version", "truestep " + truestep::report::version());
    app.require_subcommand(1);
    app.footer("'truestep COMMAND --help' tells about one command, with examples.");
    add_verify(app, status, arguments);
    add_check(app, status, arguments);
    add_planted(app, status, arguments);
    add_report(app, status);
    add_record(app, status, arguments);
    add_diff(app, status);
    add_fingerprints(app, status, arguments);
    add_join(app, status);
    add_model(app, status);
    add_train(app, status, arguments);
    add_info(app, status);
    add_manual(app, status);
    return truestep::gate::run_command_line(app, count, values, status);
}
