// Adds `truestep fingerprints`, which compares the ranks of a run, or two runs, by fingerprints.
#include "commands.hpp"

#include <cstdio>
#include <memory>

#include <truestep/report/environment.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/verify/compare_fingerprints.hpp>

namespace truestep::tool {

void add_fingerprints(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command = app.add_subcommand(
        "fingerprints", "compare the ranks of a run, or two runs, by the fingerprints that "
                        "each rank wrote");
    struct Settings {
        std::vector<std::string> run;
        std::vector<std::string> other;
        std::string json;
    };
    auto settings = std::make_shared<Settings>();
    command->add_option("FILE", settings->run, "a run's files, one a rank")->required();
    command->add_option("--with", settings->other, "another run's files, one a rank")->expected(1, -1);
    command->add_option("--json", settings->json, "write the result to this file, too");
    command->footer("Exit status: 0 the same, 1 a difference, 2 bad input or usage.\n"
                    "Examples:\n"
                    "  truestep fingerprints run.rank*.prints\n"
                    "  truestep fingerprints run.rank*.prints --with yesterday/run.rank*.prints");
    command->callback([settings, arguments, &status] {
        const verify::RunFingerprints run = verify::read_run(settings->run);
        const verify::RunFingerprints other =
            settings->other.empty() ? verify::RunFingerprints{} : verify::read_run(settings->other);
        const verify::PrintsVerdict verdict = verify::compare_prints(run, other);
        std::fputs(text_report(verdict).c_str(), stdout);
        if (!settings->json.empty()) {
            nlohmann::ordered_json json{{"command", arguments},
                                        {"environment", report::json_environment()}};
            json.update(json_report(verdict));
            report::write_json(settings->json, json);
        }
        status = verdict.same() ? all_passed : difference;
    });
}

} // namespace truestep::tool
