// Adds `truestep check`: the gate over all systems of this project.
#include "commands.hpp"
#include "systems.hpp"

#include <truestep/gate/check_command.hpp>
#include <truestep/gate/results.hpp>
#include <truestep/gpu/availability.hpp>

namespace truestep::tool {

void add_check(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command = app.add_subcommand(
        "check", "the gate: compare every implementation with the reference and test its properties");
    gate::set_up_check(*command, status, arguments, all_systems(),
                       gate::shell_word(arguments.front()) + " check",
                       gpu::simulated() ? gpu::choose_schedule : std::function<void(std::uint64_t)>{});
}

} // namespace truestep::tool
