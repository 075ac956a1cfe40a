#include "commands.hpp"
#include "gate.hpp"
#include "terminal.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <scape/planted/bugs.hpp>
#include <scape/planted/implementation.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/properties/failure.hpp>

namespace scape::tool {

namespace {

using nlohmann::ordered_json;
using properties::Implementation;
using properties::Property;
using properties::SearchOptions;
using properties::SearchResult;
using verify::Status;

struct Settings {
    std::vector<int> numbers;
    std::vector<std::string> without;
    bool all = false;
    bool list = false;
    int cases = 100;
    int clean_cases = 10'000;
    std::uint64_t seed = 1;
    double timeout = 20.0;
    std::string json;
    std::string report;
};

class Planted {
  public:
    Planted(const Settings& settings, const std::vector<std::string>& arguments)
        : settings_(settings), arguments_(arguments), program_(shell_word(arguments.front())),
          group_(gate::make_thread_group(std::chrono::duration_cast<std::chrono::milliseconds>(
              std::chrono::duration<double>(settings.timeout)))),
          watch_(0.0, [](bool here) { return here; }), progress_("scape planted") {
        if (settings.cases < 1 || settings.clean_cases < 0)
            throw Error("--cases must be at least 1, and --clean-cases 0");
        if (!(settings.timeout >= 0.001 && settings.timeout <= 31'536'000.0))
            throw Error("--timeout is " + shortest(settings.timeout) +
                        "; it must be 0.001 seconds to a year");
        for (const std::string& name : settings.without)
            static_cast<void>(properties::find_property(name));
        for (const Property& property : properties::all_properties())
            if (std::ranges::find(settings.without, property.name) == settings.without.end())
                properties_.push_back(&property);
    }

    int run() {
        std::vector<int> numbers = settings_.numbers;
        if (numbers.empty())
            for (const planted::Description& bug : planted::bugs())
                numbers.push_back(bug.number);
        for (const int number : numbers) {
            const auto implementation = planted::implementation(number, group_);
            if (number == 0)
                throw Error(
                    "--bug 0 is the clean implementation, which is always tried; the bugs are numbered "
                    "from 1");
            progress_.show("bug " + std::to_string(number));
            if (implementation->unavailable().empty())
                catch_bug(number, *implementation);
            else
                skip_bug(number, *implementation);
        }
        accuse_the_clean();
        return finish();
    }

  private:
    void skip_bug(int number, const Implementation& implementation) {
        results_.add_property({{"implementation", implementation.name()},
                               {"communicator", implementation.communicator()},
                               {"number", 0},
                               {"property", "planted bug " + std::to_string(number)},
                               {"says", planted::bugs()[static_cast<std::size_t>(number - 1)].name +
                                            ": a property catches it."},
                               {"cases", 0},
                               {"classes", ordered_json::object()},
                               {"seconds", 0.0},
                               {"status", name(Status::skipped)},
                               {"reason", implementation.unavailable()},
                               {"command", program_ + " planted --bug " + std::to_string(number)},
                               {"failure", nullptr}});
        ++skipped_;
    }

    void catch_bug(int number, const Implementation& implementation) {
        const planted::Description& bug = planted::bugs()[static_cast<std::size_t>(number - 1)];
        ordered_json row{{"number", number},
                         {"name", bug.name},
                         {"caught", false},
                         {"property", ""},
                         {"also", ordered_json::array()},
                         {"cases", 0},
                         {"elements", 0},
                         {"ranks", 0},
                         {"steps", 0},
                         {"evaluations", 0},
                         {"seconds", 0.0},
                         {"command", ""},
                         {"failure", nullptr}};
        double seconds = 0.0;
        for (const Property* property : properties_) {
            const bool first = !row["caught"];
            if (!first && !settings_.all)
                break;
            SearchOptions options;
            options.cases = settings_.cases;
            options.seed = settings_.seed;
            options.most_evaluations = first ? 2000 : 0;
            options.before = [this, number, property](const properties::Case& run) {
                return watch_.goes_on(command(number, *property, run));
            };
            const SearchResult result = search(implementation, *property, options);
            if (first)
                seconds += result.seconds;
            if (first)
                row["cases"] = row["cases"].get<int>() + result.cases;
            if (!result.counterexample)
                continue;
            if (!first) {
                row["also"].push_back(property->name);
                continue;
            }
            const auto& found = *result.counterexample;
            row["caught"] = true;
            row["property"] = property->name;
            row["elements"] = found.run.size();
            row["ranks"] = most_ranks(found);
            row["steps"] = steps_of(found);
            row["evaluations"] = found.evaluations;
            row["command"] = command(number, *property, found.run);
            row["failure"] = failure_json(found, "");
        }
        row["seconds"] = seconds;
        caught_ += row["caught"].get<bool>() ? 1 : 0;
        small_ += row["caught"].get<bool>() && row["elements"].get<problem::Index>() <= 8 ? 1 : 0;
        ++made_;
        results_.add_planted(std::move(row));
    }

    static int most_ranks(const properties::Counterexample& found) {
        int most = found.run.workers;
        for (const properties::Ran& ran : found.runs)
            for (const properties::Action& action : ran.scenario.actions)
                if (action.problem)
                    most = std::max(most, action.problem->workers);
        return most;
    }

    static problem::Index steps_of(const properties::Counterexample& found) {
        problem::Index most = 0;
        for (const properties::Ran& ran : found.runs)
            most = std::max(most, static_cast<problem::Index>(std::ranges::count_if(
                                      ran.scenario.actions, [](const properties::Action& action) {
                                          return action.kind == properties::Action::Kind::step;
                                      })));
        return most;
    }

    [[nodiscard]] std::string command(int number, const Property& property,
                                      const properties::Case& run) const {
        return program_ + " check --planted " + std::to_string(number) + " --property " + property.name +
               " --case " + shell_word(text(run));
    }

    /// The implementations without a bug, over as many cases each: what is caught there is a false
    /// accusation.
    void accuse_the_clean() {
        if (settings_.clean_cases == 0)
            return;
        std::vector<std::shared_ptr<const Implementation>> clean{planted::implementation(0, group_)};
        for (const auto& implementation : properties::all_implementations(group_))
            if (implementation->name() == "host")
                clean.push_back(implementation);
        for (const auto& implementation : clean)
            for (const Property* property : properties_) {
                progress_.show(implementation->name() + ", " + property->name);
                SearchOptions options;
                const int count = static_cast<int>(properties_.size());
                options.cases = (settings_.clean_cases + count - 1) / count;
                options.seed = settings_.seed;
                const std::string with = program_ + " check --implementation " + implementation->name() +
                                         " --property " + property->name;
                options.before = [this, &with](const properties::Case& run) {
                    return watch_.goes_on(with + " --case " + shell_word(text(run)));
                };
                const SearchResult result = search(*implementation, *property, options);
                const Verdict verdict = judge(*property, result, options);
                clean_cases_ += result.cases;
                accused_ += result.counterexample ? 1 : 0;
                mistrusted_ += verdict.status == Status::mistrusted ? 1 : 0;
                if (result.counterexample)
                    results_.add_failure("FALSE ACCUSATION of " + implementation->name() + " by " +
                                         property->name + ":\n" + failure_text(*result.counterexample) +
                                         "$ " + with + " --case " +
                                         shell_word(text(result.counterexample->run)) + "\n\n");
                results_.add_property(
                    {{"implementation", implementation->name()},
                     {"communicator", implementation->communicator()},
                     {"number", property->number},
                     {"property", property->name},
                     {"says", property->says},
                     {"cases", result.cases},
                     {"classes",
                      result.kinds.empty() ? ordered_json::object() : ordered_json(result.kinds)},
                     {"seconds", result.seconds},
                     {"status", name(verdict.status)},
                     {"reason", verdict.reason},
                     {"command", with + " --cases " + std::to_string(options.cases) + " --seed " +
                                     std::to_string(settings_.seed)},
                     {"failure", result.counterexample ? failure_json(*result.counterexample, "")
                                                       : ordered_json(nullptr)}});
            }
    }

    int finish() {
        const ordered_json document = results_.document(arguments_, settings_.seed, watch_.seconds());
        std::fputs(results_.text().c_str(), stdout);
        if (!settings_.json.empty())
            write_json(settings_.json, document);
        if (!settings_.report.empty()) {
            write_report(settings_.report, document);
            std::printf("\nreport: %s/index.html\n", settings_.report.c_str());
        }
        if (settings_.clean_cases > 0)
            std::printf("\nclean implementations: %d cases, %d accused, %d properties saw too little\n",
                        clean_cases_, accused_, mistrusted_);
        std::printf("smallest cases of at most 8 parameters: %d\n", small_);
        std::printf("planted bugs: %d made, %d caught%s\n", made_, caught_,
                    skipped_ == 0 ? "" : (", " + std::to_string(skipped_) + " skipped").c_str());
        return caught_ == made_ && accused_ == 0 && mistrusted_ == 0 ? all_passed : difference;
    }

    const Settings& settings_;
    const std::vector<std::string>& arguments_;
    std::string program_; ///< as it was started
    std::shared_ptr<const gate::Group> group_;
    Watch watch_;
    Progress progress_;
    std::vector<const Property*> properties_;
    Results results_;
    int made_ = 0;
    int skipped_ = 0;
    int caught_ = 0;
    int small_ = 0;
    int clean_cases_ = 0;
    int accused_ = 0;
    int mistrusted_ = 0;
};

int list() {
    for (const planted::Description& bug : planted::bugs())
        std::printf("%2d %s\n   %s\n", bug.number, bug.name.c_str(), bug.shows.c_str());
    return all_passed;
}

} // namespace

void add_planted(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command = app.add_subcommand(
        "planted", "the gate's own test: does it catch every planted bug, and accuse nobody else?");
    auto settings = std::make_shared<Settings>();
    command->option_defaults()->always_capture_default();
    command->add_option("--bug", settings->numbers, "only these; see --list")->delimiter(',');
    command->add_flag("--all", settings->all, "let every property try, not only until one catches it");
    command->add_option("--without", settings->without, "leave out these properties")->delimiter(',');
    command->add_option("--cases", settings->cases, "cases that a property may draw to catch a bug");
    command->add_option("--clean-cases", settings->clean_cases,
                        "cases over all properties, for each of the clean implementations");
    command->add_option("--seed", settings->seed, "all cases follow from it");
    command->add_option("--timeout", settings->timeout, "seconds after which a silent rank ends a run");
    command->add_flag("--list", settings->list, "list the bugs, and what each one shows");
    command->add_option("--json", settings->json, "write the results to this file (docs/results.md)");
    command->add_option("--report", settings->report,
                        "write results.json, index.html and junit.xml to this folder");
    command->footer(
        "Exit status: 0 every bug caught and nobody else accused, 1 not so, 2 bad input or usage.\n"
        "Examples:\n"
        "  scape planted\n"
        "  scape planted --bug 41,54 --all --clean-cases 0");
    command->callback([settings, &status, &arguments] {
        tell_of_crashes();
        status = settings->list ? list() : Planted(*settings, arguments).run();
    });
}

} // namespace scape::tool
