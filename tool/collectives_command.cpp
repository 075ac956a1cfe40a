// Adds `truestep collectives`, which checks the recorded collectives of a run's ranks.
#include "commands.hpp"

#include <cstdio>
#include <memory>

#include <truestep/report/environment.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/verify/collectives/check.hpp>

namespace truestep::tool {

void add_collectives(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command = app.add_subcommand(
        "collectives",
        "does each collective of a run do what it is defined to do? From what truestep.torch.watch wrote");
    struct Settings {
        std::vector<std::string> run;
        std::string json;
    };
    auto settings = std::make_shared<Settings>();
    command->add_option("FILE", settings->run, "a run's files, one a rank")->required();
    command->add_option("--json", settings->json, "write the result to this file, too");
    command->footer("docs/collectives.md shows how the files are made.\n"
                    "Exit status: 0 all hold, 1 one does not, 2 bad input or usage.\n"
                    "Example:\n"
                    "  truestep collectives run.rank*.collectives");
    command->callback([settings, arguments, &status] {
        const verify::collectives::Verdict verdict =
            verify::collectives::check(verify::collectives::read_run(settings->run));
        std::fputs(text_report(verdict).c_str(), stdout);
        if (!settings->json.empty()) {
            nlohmann::ordered_json json{{"command", arguments},
                                        {"environment", report::json_environment()}};
            json.update(json_report(verdict));
            report::write_json(settings->json, json);
        }
        status = verdict.holds() ? all_passed : difference;
    });
}

} // namespace truestep::tool
