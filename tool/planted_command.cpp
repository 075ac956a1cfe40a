#include "commands.hpp"
#include "planted_search.hpp"

#include <cstdio>
#include <memory>

#include <truestep/gate/check_command.hpp>
#include <truestep/gate/terminal.hpp>

namespace truestep::tool {

namespace {

int list(const std::string& system) {
    for (const gate::Mistake& bug : gate::find_system(all_systems(), system).mistakes)
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
        "planted", "the gate's own test: does it catch every planted bug, and accuse nobody else?");
    auto settings = std::make_shared<PlantedRun>();
    command->option_defaults()->always_capture_default();
    command->add_option("--system", settings->system, "whose mistakes");
    command
        ->add_option("--bug", settings->numbers,
                     "only these: " + gate::numbers_of_mistakes(all_systems()) + "; see --list")
        ->delimiter(',');
    command->add_flag("--all", settings->all, "let every property try, not only until one catches it");
    command->add_option("--property", settings->properties, "let only these properties try")
        ->delimiter(',');
    command->add_option("--without", settings->without, "leave out these properties")->delimiter(',');
    command->add_option("--cases", settings->cases, "cases that a property may draw to catch a bug");
    command->add_option("--clean-cases", settings->clean_cases,
                        "cases over all properties, for each of the clean implementations");
    command->add_option("--seed", settings->seed, "all cases follow from it");
    command->add_option("--timeout", settings->timeout, "seconds after which a silent rank ends a run");
    command->add_option("--jobs", settings->jobs, "processes at work at a time; 0: all in this one");
    command->add_flag("--converge", settings->converge,
                      "train with each, and say which ones a loss curve shows; nothing else is asked");
    command->add_option("--pairs", settings->pairs, "of these runs, of each");
    command->add_flag("--list", settings->list, "list the bugs, and what each one shows");
    command->add_option("--json", settings->json, "write the results to this file (docs/results.md)");
    command->add_option("--report", settings->report,
                        "write results.json, index.html and junit.xml to this folder");
    command->footer(
        "Exit status: 0 every bug caught and nobody else accused, 1 not so, 2 bad input or usage.\n"
        "Examples:\n"
        "  truestep planted\n"
        "  truestep planted --bug 41,54 --all --clean-cases 0");
    command->callback([settings, &status, &arguments] {
        gate::tell_of_crashes();
        status = settings->list       ? list(settings->system)
                 : settings->converge ? train(*settings, arguments)
                                      : search_for_planted(*settings, arguments);
    });
}

} // namespace truestep::tool
