#include "commands.hpp"

#include <scape/gate/command_line.hpp>
#include <scape/report/environment.hpp>

int main(int count, char** values) {
    using namespace scape::tool;
    const std::vector<std::string> arguments(values, values + count);
    int status = bad_input;
    CLI::App app("Finds out whether an implementation of a communication-efficient optimizer is right.",
                 "scape");
    app.set_version_flag("--version", "scape " + scape::report::version());
    app.require_subcommand(1);
    app.footer("'scape COMMAND --help' tells about one command, with examples.");
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
    return scape::gate::run_command_line(app, count, values, status);
}
