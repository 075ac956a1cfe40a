// Adds `truestep planted`, which tests that the gate catches each known bug.
#include "commands.hpp"
#include "planted_search.hpp"

#include <cstdio>
#include <memory>

#include <truestep/gate/system_commands.hpp>
#include <truestep/gate/terminal.hpp>

namespace truestep::tool {

namespace {

int list(const std::string& system) {
    for (const gate::KnownBug& bug : gate::find_system(all_systems(), system).known_bugs)
        std::printf("%2d %s\n   %s\n", bug.number, bug.name.c_str(), bug.shows.c_str());
    return all_passed;
}

int train(const PlantedRun& settings, const std::vector<std::string>& arguments) {
    return planted_training({.numbers = settings.numbers,
                             .pairs = settings.pairs,
                             .jobs = settings.jobs,
                             .timeout = settings.timeout,
                             .json = settings.json,
                             .report = settings.report},
                            gate::find_system(all_systems(), settings.system), arguments);
}

} // namespace

void add_planted(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command = app.add_subcommand(
        "planted", "test the gate: it must catch every known bug and accuse no clean implementation");
    const auto set_up = [&](CLI::App& one, const gate::System& system, const std::string& words) {
        auto settings = std::make_shared<PlantedRun>();
        settings->system = system.name;
        one.option_defaults()->always_capture_default()->group("What is tried");
        one.add_option("--bug", settings->numbers,
                       "only these: 1 to " + std::to_string(system.known_bugs.size()) + "; see --list")
            ->delimiter(',');
        one.add_flag("--all", settings->all, "let every property try, not only until one catches it");
        one.add_option("--property", settings->properties, "let only these properties try")->delimiter(',');
        one.add_option("--without", settings->without, "leave out these properties")->delimiter(',');
        if (system.learning) {
            one.add_flag("--converge", settings->converge,
                         "only train with each bug and report which ones change the loss curve");
            one.add_option("--pairs", settings->pairs, "pairs of runs with each bug, with --converge");
        }
        one.option_defaults()->group("How much and how long");
        one.add_option("--cases", settings->cases, "cases that a property may draw to catch a bug");
        one.add_option("--clean-cases", settings->clean_cases,
                       "cases over all properties, for each of the clean implementations");
        one.add_option("--seed", settings->seed, "seed of all cases");
        one.add_option("--timeout", settings->timeout, "seconds after which a silent rank ends a run");
        one.add_option("--jobs", settings->jobs, "processes at work at a time; 0: all in this one");
        one.option_defaults()->group("What is printed and written");
        one.add_flag("--list", settings->list, "list the bugs, and what each one shows");
        one.add_option("--json", settings->json, "write the results to this file (docs/results.md)");
        one.add_option("--report", settings->report,
                       "write results.json, index.html and junit.xml to this folder");
        const std::string shown = "  truestep planted" + words;
        one.footer(
            "Exit status: 0 every bug caught and no clean implementation accused, 1 otherwise, 2 bad input "
            "or usage.\n"
            "Examples:\n" +
            shown + "\n" + shown + " --bug 1,5 --all --clean-cases 0");
        one.callback([settings, &status, &arguments] {
            gate::tell_of_crashes();
            status = settings->list       ? list(settings->system)
                     : settings->converge ? train(*settings, arguments)
                                          : search_for_planted(*settings, arguments);
        });
    };
    gate::by_system(*command, all_systems(), set_up,
                    [](const gate::System& system) { return !system.known_bugs.empty(); });
}

} // namespace truestep::tool
