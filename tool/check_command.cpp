#include "commands.hpp"
#include "systems.hpp"

#include <scape/gate/check_command.hpp>
#include <scape/gate/results.hpp>
#include <scape/gpu/availability.hpp>

namespace scape::tool {

void add_check(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command = app.add_subcommand(
        "check", "the gate: every implementation beside the reference, and against its properties");
    gate::set_up_check(*command, status, arguments, all_systems(),
                       gate::shell_word(arguments.front()) + " check",
                       gpu::simulated() ? gpu::choose_schedule : std::function<void(std::uint64_t)>{});
}

} // namespace scape::tool
