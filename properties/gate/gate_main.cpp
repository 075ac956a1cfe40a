// Provides the main function of a user's own gate: the options of `check` over given systems.
#include <truestep/gate/gate_main.hpp>

#include <filesystem>
#include <string>

#include <truestep/gate/check_command.hpp>
#include <truestep/gate/command_line.hpp>
#include <truestep/report/environment.hpp>

#include "check.hpp"

namespace truestep::gate {

int gate_main(int count, char** values, const std::vector<System>& systems) {
    const std::vector<std::string> arguments(values, values + count);
    const std::string name = arguments.empty()
                                 ? std::string("gate")
                                 : std::filesystem::path(arguments.front()).filename().string();
    int status = bad_input;
    CLI::App app("The gate: compare every implementation with the reference and test its properties.",
                 name);
    app.set_version_flag("--version", "truestep " + report::version());
    set_up_check(app, status, arguments, systems, arguments.empty() ? name : shell_word(arguments.front()));
    return run_command_line(app, arguments, status);
}

} // namespace truestep::gate
