// Adds `truestep info`, which prints versions, compiled-in parts and the processor.
#include "commands.hpp"

#include <cstdio>
#include <memory>

#include <truestep/report/environment.hpp>
#include <truestep/report/table.hpp>

namespace truestep::tool {

void add_info(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("info", "versions, what was compiled in, the processor");
    auto json = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "as JSON");
    command->footer("Example:\n  truestep info --json");
    command->callback([json, &status] {
        if (*json) {
            std::printf("%s\n", report::json_environment().dump(2).c_str());
        } else {
            report::Table table({{"what"}, {"value"}});
            for (const auto& [what, value] : report::environment())
                table.add({what, value});
            std::fputs(table.text().c_str(), stdout);
        }
        status = all_passed;
    });
}

} // namespace truestep::tool
