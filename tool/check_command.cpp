#include "commands.hpp"
#include "gate.hpp"
#include "terminal.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include <scape/distributed/mpi.hpp>
#include <scape/planted/implementation.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/properties/failure.hpp>
#include <scape/properties/recording.hpp>
#include <scape/verify/record.hpp>
#include <scape/verify/report.hpp>

namespace scape::tool {

namespace {

using gate::Group;
using nlohmann::ordered_json;
using properties::Implementation;
using properties::Pins;
using properties::Property;
using properties::SearchOptions;
using properties::SearchResult;
using verify::Status;

struct Settings {
    std::string communicator = "in_process";
    std::vector<std::string> implementations;
    std::optional<int> planted;
    std::vector<int> workers;
    std::vector<double> densities;
    std::vector<std::string> partitions;
    std::vector<std::string> corrections;
    std::vector<std::string> properties;
    bool matrix_only = false;
    bool thorough = false;
    bool list = false;
    bool brief = false;
    bool verbose = false;
    bool must_finish = false;
    std::string level;
    std::optional<std::string> one_case;
    int cases = 0;
    std::uint64_t seed = 1;
    std::string data;
    std::string tensors;
    std::int64_t steps = 0;
    std::optional<double> clip_norm;
    double time_budget = 0.0;
    double timeout = 60.0;
    std::string save;
    std::string json;
    std::string report;
};

/// A run of the gate over the settings, the same on all ranks.
class Gate {
  public:
    Gate(const Settings& settings, std::shared_ptr<const Group> group,
         const std::vector<std::string>& arguments)
        : settings_(settings), arguments_(arguments), program_(arguments.front()), group_(std::move(group)),
          watch_(settings.time_budget, [this](bool here) { return group_->any(here); }),
          progress_("scape check") {
        check_settings();
        choose_implementations();
        choose_pins();
        if (settings_.one_case)
            one_case_ = properties::parse_case(*settings_.one_case);
        for (const std::string& name : settings_.properties)
            static_cast<void>(properties::find_property(name));
        check_one_case();
        check_that_results_can_be_written();
        static_cast<void>(gate::scratch_folder(*group_));
    }

    int run() {
        if (settings_.list) {
            print_list();
            return all_passed;
        }
        for (const auto& implementation : chosen_)
            results_.add_runs_on(implementation->name(), implementation->runs_on());
        if (settings_.one_case) {
            run_one_case();
        } else {
            count_searches();
            if (settings_.properties.empty())
                run_matrix();
            if (!settings_.matrix_only)
                run_properties();
        }
        return finish();
    }

  private:
    void check_one_case() const {
        if (!one_case_)
            return;
        const properties::Case& run = *one_case_;
        const Property& property = *chosen_properties().front();
        const Implementation& implementation = *chosen_.front();
        if (const std::string why = property.skipped(implementation); !why.empty())
            throw Error("--property " + property.name + " says nothing about " + implementation.name() +
                        ": " + why);
        properties::Case needed = run;
        property.needs(needed);
        if (!(needed == run))
            throw Error("--case is none that " + property.name + " can judge; it needs " + text(needed));
        if (run.script.empty() && property.name == "machine")
            throw Error("--case has no script for machine to follow; add script=step+restart:3+step, say");
        if (const std::string why = implementation.unavailable(); !why.empty())
            throw Error("--case cannot be tried with " + implementation.name() + " here: " + why);
        int most = std::max(run.workers, run.other_workers);
        for (const properties::Operation& operation : run.script)
            most = std::max(most, operation.workers);
        if (!implementation.takes(most))
            throw Error("--case has " + std::to_string(most) +
                        " workers, more than mpirun has started; start as many with mpirun -n");
    }

    /// Now, not after the hours that the run may take.
    void check_that_results_can_be_written() const {
        std::string fault;
        if (group_->speaks())
            try {
                if (!settings_.json.empty() && !std::ofstream(settings_.json, std::ios::app))
                    throw Error("--json " + settings_.json +
                                " cannot be written; check the folder and its rights");
                for (const std::string& folder : {settings_.report, settings_.save})
                    if (!folder.empty())
                        std::filesystem::create_directories(folder);
            } catch (const std::exception& error) {
                fault = error.what();
            }
        fault = group_->told(fault);
        if (!fault.empty())
            throw Error(fault);
    }

    void check_settings() const {
        const auto at_least = [](const char* option, double value, double least) {
            if (!(value >= least))
                throw Error(std::string(option) + " is " + shortest(value) + "; at least " +
                            shortest(least) + " is needed");
        };
        at_least("--cases", settings_.cases, 0);
        at_least("--steps", static_cast<double>(settings_.steps), 0);
        at_least("--time-budget", settings_.time_budget, 0);
        at_least("--clip-norm", settings_.clip_norm.value_or(0.0), 0);
        at_least("--planted", settings_.planted.value_or(1), 1);
        if (settings_.planted && !settings_.implementations.empty())
            throw Error("--planted and --implementation exclude each other; leave one out");
        if (!(settings_.timeout >= 0.001 && settings_.timeout <= 31'536'000.0))
            throw Error("--timeout is " + shortest(settings_.timeout) +
                        "; it must be 0.001 seconds to a year");
        if (settings_.one_case && (settings_.properties.size() != 1 || implementation_count() != 1))
            throw Error("--case needs one --implementation and one --property to be tried with");
        if (settings_.matrix_only && !settings_.properties.empty())
            throw Error("--matrix and --property exclude each other; leave one out");
    }

    [[nodiscard]] std::size_t implementation_count() const {
        return settings_.planted ? 1 : settings_.implementations.size();
    }

    void choose_implementations() {
        if (settings_.planted) {
            chosen_ = {planted::implementation(*settings_.planted, group_)};
        } else {
            auto all = properties::all_implementations(group_);
            all.push_back(planted::implementation(0, group_));
            std::string names;
            for (const auto& implementation : all)
                names += (names.empty() ? "" : ", ") + implementation->name();
            for (const std::string& name : settings_.implementations) {
                const auto found = std::ranges::find_if(
                    all, [&](const auto& implementation) { return implementation->name() == name; });
                if (found == all.end())
                    throw Error("--implementation is '" + name + "'; there are " + names);
                chosen_.push_back(*found);
            }
            if (settings_.implementations.empty())
                chosen_ = std::move(all);
        }
        if (settings_.level.empty())
            return;
        const auto level = verify::parse_trace_level(settings_.level).kind;
        for (const auto& implementation : chosen_)
            if (level == verify::LevelKind::exact && implementation->level() != level)
                throw Error(
                    "--level exact cannot be had of " + implementation->name() +
                    ": it adds in the communicator's own order; leave it out with --implementation, or use "
                    "--level rel");
    }

    void choose_pins() {
        for (const int workers : settings_.workers) {
            problem::check_workers(workers);
            if (!group_->takes(workers))
                throw Error("--workers has " + std::to_string(workers) +
                            ", more than mpirun has started; start as many with mpirun -n");
        }
        for (const double density : settings_.densities)
            static_cast<void>(problem::DensitySchedule::constant(density));
        pins_.workers = settings_.workers;
        std::ranges::sort(pins_.workers); // shrinking leads to the first
        pins_.densities = settings_.densities;
        for (const std::string& text : settings_.partitions)
            pins_.partitions.push_back(problem::parse<problem::PartitionRule>(text));
        for (const std::string& text : settings_.corrections)
            pins_.corrections.push_back(problem::parse<problem::BiasCorrection>(text));
        if (!settings_.data.empty())
            pins_.data = {problem::parse_data_class(settings_.data)};
        if (settings_.steps > 0)
            pins_.steps = settings_.steps;
        if (!settings_.tensors.empty()) {
            pins_.tensors = verify::parse_tensors(settings_.tensors);
            static_cast<void>(problem::Layout(*pins_.tensors));
        }
        pins_.clip_norm = settings_.clip_norm;
        pins_.workers_by_default = pins_.workers.empty() && group_->name() == "mpi";
        if (pins_.workers_by_default)
            for (const int workers : usual_workers)
                if (group_->takes(workers))
                    pins_.workers.push_back(workers);
        if (pins_.workers_by_default && most_workers() > usual_workers.back())
            pins_.workers.push_back(most_workers());
    }

    void print_list() const {
        if (!group_->speaks())
            return;
        std::puts("implementations (level, variants):");
        for (const auto& implementation : chosen_) {
            std::string variants;
            for (const std::string& variant : implementation->variants())
                variants += (variants.empty() ? "" : "; ") + variant;
            if (!implementation->unavailable().empty())
                variants += " (SKIPPED here: " + implementation->unavailable() + ")";
            std::printf("  %-18s %-10s %-6s %s\n", implementation->name().c_str(),
                        implementation->communicator().c_str(), level_of(*implementation).c_str(),
                        variants.c_str());
        }
        std::puts("properties (number in section 8 of the specification):");
        for (const Property& property : properties::all_properties())
            std::printf("  %2s %-26s %s\n",
                        property.number == 0 ? "-" : std::to_string(property.number).c_str(),
                        property.name.c_str(), property.says.c_str());
    }

    static std::string level_of(const Implementation& implementation) {
        return name(implementation.level() == verify::LevelKind::exact ? verify::Level::exact()
                                                                       : verify::Level::rel());
    }

    // Commands that repeat things.

    [[nodiscard]] std::string command(const Implementation& implementation) const {
        const bool mpi = group_->name() == "mpi";
        std::string text = mpi ? launcher() + " -n " + std::to_string(most_workers()) + " " +
                                     shell_word(program_) + " check --communicator mpi"
                               : shell_word(program_) + " check";
        text += settings_.planted ? " --planted " + std::to_string(*settings_.planted)
                                  : " --implementation " + implementation.name();
        return text;
    }

    /// How this machine's ranks are started, with the options that it needs.
    static std::string launcher() {
        const char* given = std::getenv("SCAPE_MPIRUN");
        return given != nullptr && *given != '\0' ? given : "mpirun";
    }

    [[nodiscard]] int most_workers() const {
        int most = 1;
        while (group_->name() == "mpi" && group_->takes(most + 1))
            ++most;
        return most;
    }

    [[nodiscard]] std::string narrowed(const SearchOptions& options) const {
        std::string text;
        const auto add = [&text](const char* option, const auto& values, const auto& word) {
            std::string list;
            for (const auto& value : values)
                list += (list.empty() ? "" : ",") + std::string(word(value));
            if (!list.empty())
                text += std::string(" ") + option + " " + list;
        };
        add("--workers", options.pins.workers, [](int value) { return std::to_string(value); });
        add("--density", options.pins.densities, [](double value) { return shortest(value); });
        add("--partition", options.pins.partitions, [](auto value) { return problem::name(value); });
        add("--bias-correction", options.pins.corrections, [](auto value) { return problem::name(value); });
        if (!settings_.data.empty())
            text += " --data " + settings_.data;
        if (settings_.steps > 0)
            text += " --steps " + std::to_string(settings_.steps);
        if (!settings_.tensors.empty())
            text += " --tensors " + shell_word(settings_.tensors);
        if (settings_.clip_norm)
            text += " --clip-norm " + shortest(*settings_.clip_norm);
        return text + " --cases " + std::to_string(options.cases) + " --seed " +
               std::to_string(settings_.seed);
    }

    [[nodiscard]] std::string command(const Implementation& implementation, const Property& property,
                                      const properties::Case& run) const {
        return command(implementation) + " --property " + property.name + " --case " +
               shell_word(text(run));
    }

    // Searches.

    [[nodiscard]] SearchOptions options_for(const Implementation& implementation, const Property& property,
                                            int usual, int thorough) {
        SearchOptions options;
        options.cases = settings_.cases > 0 ? settings_.cases : settings_.thorough ? thorough : usual;
        options.seed = settings_.seed;
        options.pins = pins_;
        options.before = [this, &implementation, &property](const properties::Case& run) {
            return watch_.goes_on(command(implementation, property, run));
        };
        return options;
    }

    void begin_search(const std::string& with) {
        ++searches_done_;
        const double share = static_cast<double>(searches_done_) / std::max(1, searches_);
        std::string line = std::to_string(searches_done_) + " of " + std::to_string(searches_);
        if (searches_done_ > 1) {
            const double left = watch_.limited() ? settings_.time_budget - watch_.seconds()
                                                 : watch_.seconds() * (1.0 - share) / share;
            line += ", about " + std::to_string(static_cast<int>(std::max(0.0, left))) + " s left";
        }
        if (group_->speaks()) {
            progress_.show(line);
            if (settings_.verbose)
                std::fprintf(stderr, "$ %s\n", with.c_str());
        }
    }

    /// The counterexample's failure, told and kept.
    ordered_json failure(const Implementation& implementation, const Property& property,
                         const SearchResult& result, const std::string& with) {
        if (!result.counterexample)
            return nullptr;
        const auto& found = *result.counterexample;
        std::string trace;
        if (!settings_.save.empty() && group_->speaks()) {
            std::filesystem::create_directories(settings_.save);
            const std::string name = implementation.name() + "_" + property.name + "_" +
                                     std::to_string(++failures_) + ".safetensors";
            if (!found.runs.empty() &&
                properties::save_trace(std::filesystem::path(settings_.save) / name, found.runs.back(),
                                       "scape check, " + implementation.name()))
                trace = name;
        }
        constexpr int most_told = 10;
        ++told_;
        if (told_ == most_told + 1)
            results_.add_failure(
                "More failed, of which only the commands are shown; --report shows all.\n");
        if (told_ > most_told) {
            results_.add_failure("$ " + command(implementation, property, found.run) + "\n");
            return failure_json(found, trace);
        }
        results_.add_failure(
            "$ " + with + "\n  " + implementation.name() + ", " + property.name + ": " + property.says +
            "\n" + failure_text(found) + "  to repeat it:\n$ " +
            command(implementation, property, found.run) + "\n" +
            (trace.empty() ? ""
                           : "  its trace: " + settings_.save + "/" + trace + what_it_lacks(trace) + "\n") +
            coloured(Status::failed) + "\n\n");
        return failure_json(found, trace);
    }

    /// A trace holds rank 0's replica, and ends at the first restart.
    [[nodiscard]] std::string what_it_lacks(const std::string& trace) const {
        const auto verdict = verify::verify_trace(std::filesystem::path(settings_.save) / trace, {});
        return verdict.first
                   ? ""
                   : " (rank 0's replica up to the first restart, which does not show this failure)";
    }

    SearchResult searched(const Implementation& implementation, const Property& property,
                          const SearchOptions& options, const std::string& with) {
        begin_search(with);
        SearchResult result = search(implementation, property, options);
        cut_short_ = cut_short_ || result.ended;
        return result;
    }

    void run_matrix() {
        for (const auto& implementation : chosen_)
            if (properties::find_property("reference").skipped(*implementation).empty())
                over_settings(*implementation, [&](const Pins& pins) { run_row(*implementation, pins); });
    }

    template <class Visit>
    void over_settings(const Implementation& implementation, const Visit& visit) const {
        const bool adams = implementation.algorithm() == problem::Algorithm::adams;
        const auto or_else = [](const auto& pinned, const auto& usual) {
            return pinned.empty() ? usual : pinned;
        };
        using problem::BiasCorrection;
        using problem::PartitionRule;
        for (const int workers : or_else(pins_.workers, usual_workers)) {
            if (!implementation.takes(workers))
                continue;
            for (const double density : adams
                                            ? std::vector<double>{1.0}
                                            : or_else(pins_.densities, std::vector<double>{1.0, 0.1, 0.01}))
                for (const auto partition : or_else(
                         pins_.partitions, std::vector{PartitionRule::by_shard, PartitionRule::by_tensor}))
                    for (const auto correction :
                         or_else(pins_.corrections, std::vector{BiasCorrection::none, BiasCorrection::adam,
                                                                BiasCorrection::momentum})) {
                        Pins pins = pins_;
                        pins.workers = {workers};
                        pins.workers_by_default = false;
                        pins.densities = {density};
                        pins.partitions = {partition};
                        pins.corrections = {correction};
                        visit(pins);
                    }
        }
    }

    void run_row(const Implementation& implementation, const Pins& pins) {
        const Property& property = properties::find_property("reference");
        SearchOptions options = options_for(implementation, property, 4, 50);
        options.pins = pins;
        if (!pins_.tensors && !pins_.steps && pins_.data.empty() && !pins_.clip_norm)
            options.also = {standing_case(pins)};
        const std::string with = command(implementation) + " --matrix" + narrowed(options);
        SearchResult result;
        Verdict verdict{Status::skipped, implementation.unavailable()};
        if (verdict.reason.empty()) {
            result = searched(implementation, property, options, with);
            verdict = judge(property, result, options);
            if (verdict.status == Status::passed && result.counts.compared == 0)
                verdict = {Status::untested, "no value was compared"};
        }
        results_.add_row({{"implementation", implementation.name()},
                          {"communicator", implementation.communicator()},
                          {"workers", pins.workers.front()},
                          {"density", pins.densities.front()},
                          {"partition", problem::name(pins.partitions.front())},
                          {"correction", problem::name(pins.corrections.front())},
                          {"level", level_of(implementation)},
                          {"cases", result.cases},
                          {"compared", result.counts.compared},
                          {"wrong", result.counts.wrong},
                          {"max_ulp", finite_or_text(result.counts.greatest_ulps)},
                          {"share_of_limit", finite_or_text(result.counts.share_of_limit)},
                          {"seconds", result.seconds},
                          {"status", name(verdict.status)},
                          {"reason", verdict.reason},
                          {"command", with},
                          {"failure", failure(implementation, property, result, with)}});
    }

    static ordered_json finite_or_text(double value) {
        return std::isfinite(value) ? ordered_json(value) : ordered_json("inf");
    }

    /// A model with something of everything, larger than what is drawn.
    static properties::Case standing_case(const Pins& pins) {
        properties::Case run;
        run.tensors = {{"embed", 4500, false},
                       {"norm", 33, true},
                       {"gate", 1, false},
                       {"mlp", 901, false},
                       {"tiny", 7, false}};
        run.workers = pins.workers.front();
        run.density = pins.densities.front();
        run.partition = pins.partitions.front();
        run.bias_correction = pins.corrections.front();
        run.beta1 = 0.9;
        run.beta2 = 0.95;
        run.weight_decay = 0.1;
        run.data = problem::DataClass::normal;
        run.steps = 4;
        return run;
    }

    [[nodiscard]] std::vector<const Property*> chosen_properties() const {
        std::vector<const Property*> chosen;
        for (const std::string& name : settings_.properties)
            chosen.push_back(&properties::find_property(name));
        if (chosen.empty())
            for (const Property& property : properties::all_properties())
                chosen.push_back(&property);
        return chosen;
    }

    void run_properties() {
        for (const auto& implementation : chosen_)
            for (const Property* property : chosen_properties()) {
                const std::string says_nothing = property->skipped(*implementation);
                const std::string here = implementation->unavailable();
                if (says_nothing.empty() && here.empty())
                    run_property(*implementation, *property);
                else if (says_nothing.empty() || !settings_.properties.empty())
                    add_property(*implementation, *property, {},
                                 {Status::skipped, says_nothing.empty() ? here : says_nothing}, "",
                                 nullptr);
            }
    }

    void run_property(const Implementation& implementation, const Property& property) {
        const SearchOptions options = options_for(implementation, property, 100, 2000);
        const std::string with =
            command(implementation) + " --property " + property.name + narrowed(options);
        const SearchResult result = searched(implementation, property, options, with);
        add_property(implementation, property, result, judge(property, result, options), with,
                     failure(implementation, property, result, with));
    }

    void add_property(const Implementation& implementation, const Property& property,
                      const SearchResult& result, const Verdict& verdict, const std::string& with,
                      const ordered_json& failed) {
        results_.add_property(
            {{"implementation", implementation.name()},
             {"communicator", implementation.communicator()},
             {"number", property.number},
             {"property", property.name},
             {"says", property.says},
             {"cases", result.cases},
             {"classes", result.kinds.empty() ? ordered_json::object() : ordered_json(result.kinds)},
             {"seconds", result.seconds},
             {"status", name(verdict.status)},
             {"reason", verdict.reason},
             {"command", with},
             {"failure", failed}});
    }

    void run_one_case() {
        const properties::Case& run = *one_case_;
        const Property& property = *chosen_properties().front();
        const Implementation& implementation = *chosen_.front();
        const std::string with = command(implementation, property, run);
        static_cast<void>(watch_.goes_on(with));
        SearchResult result;
        result.cases = 1;
        result.counterexample = try_case(implementation, property, run, result);
        result.seconds = watch_.seconds();
        add_property(implementation, property, result, judge(property, result, {}), with,
                     failure(implementation, property, result, with));
    }

    void count_searches() {
        for (const auto& implementation : chosen_) {
            if (!implementation->unavailable().empty())
                continue;
            if (settings_.properties.empty() &&
                properties::find_property("reference").skipped(*implementation).empty())
                over_settings(*implementation, [this](const Pins&) { ++searches_; });
            if (!settings_.matrix_only)
                for (const Property* property : chosen_properties())
                    searches_ += property->skipped(*implementation).empty() ? 1 : 0;
        }
    }

    int finish() {
        const int passed = results_.count(Status::passed);
        const int skipped = results_.count(Status::skipped);
        const int failed = results_.count(Status::failed) + results_.count(Status::mistrusted) +
                           results_.count(Status::untested);
        if (group_->speaks()) {
            const ordered_json document = results_.document(arguments_, settings_.seed, watch_.seconds());
            std::printf("%s%s%d passed, %d failed, %d skipped\n",
                        settings_.brief ? results_.failures().c_str() : results_.text().c_str(),
                        results_.failures().empty() ? "\n" : "", passed, failed, skipped);
            if (!settings_.json.empty())
                write_json(settings_.json, document);
            if (!settings_.report.empty()) {
                write_report(settings_.report, document);
                std::printf("report: %s/index.html\n", settings_.report.c_str());
            }
        }
        if (settings_.must_finish && cut_short_ && group_->speaks())
            std::puts("the time budget was used up, and --must-finish is given");
        return failed > 0 || (settings_.must_finish && cut_short_) ? difference
               : passed > 0                                        ? all_passed
                                                                   : bad_input;
    }

    inline static const std::vector<int> usual_workers{1, 2, 3, 4, 5, 7, 8};

    const Settings& settings_;
    const std::vector<std::string>& arguments_;
    std::string program_; ///< as it was started
    std::shared_ptr<const Group> group_;
    Watch watch_;
    Progress progress_;
    std::vector<std::shared_ptr<const Implementation>> chosen_;
    Pins pins_;
    std::optional<properties::Case> one_case_;
    Results results_;
    bool cut_short_ = false; ///< by the time budget
    int searches_ = 0;
    int searches_done_ = 0;
    int failures_ = 0;
    int told_ = 0;
};

std::chrono::milliseconds timeout_of(const Settings& settings) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(settings.timeout));
}

/// From here on an error may be of one rank alone, and the others must not wait for it.
int run_on_all(Gate& gate, const Group& group) {
    try {
        const int status = gate.run();
        no_more_to_tell();
        return std::stoi(group.told(std::to_string(status)));
    } catch (const std::exception& error) {
        group.abort(error.what() + what_is_running());
        throw;
    }
}

/// Every rank is a process of this tool, started by mpirun.
int run_mpi(const Settings& settings, const std::vector<std::string>& arguments) {
    int no_arguments = 0;
    char** none = nullptr;
    const distributed::MpiSession session(no_arguments, none);
    const auto group = gate::make_mpi_group(timeout_of(settings), what_is_running);
    try {
        // All ranks draw rank 0's cases, whatever each was started with.
        Settings same = settings;
        same.seed = std::stoull(group->told(std::to_string(settings.seed)));
        Gate gate(same, group, arguments);
        return run_on_all(gate, *group);
    } catch (const Error& error) {
        // The same on all ranks: of the settings.
        if (group->speaks())
            std::fprintf(stderr, "scape: %s\n", one_line(error.what()).c_str());
        return bad_input;
    }
}

int run(const Settings& settings, const std::vector<std::string>& arguments) {
    tell_of_crashes();
    if (settings.communicator == "in_process")
        return Gate(settings, gate::make_thread_group(timeout_of(settings)), arguments).run();
    if (settings.communicator == "mpi")
        return run_mpi(settings, arguments);
    throw Error("--communicator is '" + settings.communicator + "'; it must be in_process or mpi");
}

} // namespace

void add_check(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command = app.add_subcommand(
        "check", "the gate: every implementation beside the reference, and against its properties");
    auto settings = std::make_shared<Settings>();
    command->option_defaults()->always_capture_default();
    command->add_option("--communicator", settings->communicator,
                        "in_process (threads) or mpi (started by mpirun)");
    command->add_option("--implementation", settings->implementations, "which; all without it")
        ->delimiter(',');
    command->add_option("--planted", settings->planted,
                        "in their place one with this planted bug, 1 to 54");
    command->add_option("--workers", settings->workers, "numbers of ranks; 1,2,3,4,5,7,8 without it")
        ->delimiter(',');
    command
        ->add_option("--density", settings->densities,
                     "shares that are synchronized; 1,0.1,0.01 without it")
        ->delimiter(',');
    command->add_option("--partition", settings->partitions, "by_shard, by_tensor")->delimiter(',');
    command->add_option("--bias-correction", settings->corrections, "none, adam, momentum")->delimiter(',');
    command->add_flag("--matrix", settings->matrix_only, "only the matrix, no properties");
    command->add_option("--property", settings->properties, "only these properties, no matrix; see --list")
        ->delimiter(',');
    command->add_option("--case", settings->one_case,
                        "one case, as a failure prints it, with one property");
    command->add_option("--cases", settings->cases,
                        "cases of each row and property; without it 4 and 1 larger, and 100");
    command->add_option("--seed", settings->seed, "all cases follow from it");
    command->add_option("--data", settings->data,
                        "only this class of gradients: " + problem::data_class_names());
    command->add_option("--steps", settings->steps, "so many steps a case");
    command->add_option("--tensors", settings->tensors,
                        "this model: name:size or name:size:dense, with commas between");
    command->add_option("--clip-norm", settings->clip_norm, "this norm; 0: no clipping");
    command->add_option("--level", settings->level, "the level to insist on: exact or rel");
    command->add_flag("--thorough", settings->thorough, "50 cases a row and 2000 a property");
    command->add_option("--time-budget", settings->time_budget,
                        "seconds after which nothing more is begun; 0: none");
    command->add_flag("--must-finish", settings->must_finish,
                      "fail if the time budget ends it before all is done");
    command->add_option("--timeout", settings->timeout, "seconds after which a silent rank ends a run");
    command->add_flag("--list", settings->list, "list implementations and properties, and end");
    command->add_flag("--brief", settings->brief, "print failures and the sum only");
    command->add_flag("--verbose", settings->verbose, "print each command before it is run");
    command->add_option("--save", settings->save, "keep shrunk failing cases as traces in this folder");
    command->add_option("--json", settings->json, "write the results to this file (docs/results.md)");
    command->add_option("--report", settings->report,
                        "write results.json, index.html and junit.xml to this folder");
    command->footer(
        "Exit status: 0 all passed, 1 a difference, 2 bad input or usage; under mpirun 3 if a rank "
        "failed.\n"
        "Examples:\n"
        "  scape check --report report\n"
        "  scape check --implementation host --workers 3,5 --density 0.01 --partition by_tensor\n"
        "  scape check --planted 6\n"
        "  scape check --thorough --time-budget 3600\n"
        "  mpirun -n 8 scape check --communicator mpi");
    command->callback([settings, &status, &arguments] { status = run(*settings, arguments); });
}

} // namespace scape::tool
