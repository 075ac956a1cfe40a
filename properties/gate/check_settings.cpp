#include "check.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/verify/level.hpp>

// Checks that what was asked for is possible, and derives what follows from it.

namespace truestep::gate {

namespace {

const std::vector<int> usual_workers{1, 2, 3, 4, 5, 7, 8};

int number_of_workers(const std::string& text) {
    int workers = 0;
    for (const char digit : text) {
        if (digit < '0' || digit > '9' || workers > 1'000'000)
            throw Error("--workers has '" + text + "'; it must be whole numbers from 1 on");
        workers = workers * 10 + (digit - '0');
    }
    return workers;
}

} // namespace

bool goes_by_set(const System& system, const Override& pin) {
    constexpr std::ptrdiff_t most_options = 8;
    return &pin - system.overrides.data() >= most_options;
}

std::string level_of(const Implementation& implementation) {
    return name(implementation.level() == verify::LevelKind::exact ? verify::Level::exact()
                                                                   : verify::Level::rel());
}

Check::Check(const CheckSettings& settings, const std::vector<System>& systems,
             std::shared_ptr<const Group> group, const std::vector<std::string>& arguments,
             std::string invocation)
    : settings_(settings), systems_(systems), system_(find_system(systems, settings.system)),
      arguments_(arguments), invocation_(std::move(invocation)), group_(std::move(group)),
      watch_(settings.time_budget, [this](bool here) { return group_->any(here); }), progress_(invocation_),
      results_(system_) {
    check_settings();
    choose_implementations();
    choose_pins();
    choose_what_is_left_out();
    for (const std::string& name : settings_.properties)
        static_cast<void>(system_.property(name));
    if (settings_.one_case)
        one_case_ = parsed_case(system_, systems_, *settings_.one_case);
    check_one_case();
    check_that_results_can_be_written();
    static_cast<void>(scratch_folder(*group_));
}

void Check::check_one_case() {
    if (!one_case_)
        return;
    const Property& property = *chosen_properties().front();
    const Implementation& implementation = *chosen_.front();
    if (const std::string why = why_not(property, implementation, unsupported(implementation));
        !why.empty())
        throw Error("--property " + property.name + " does not apply to " + implementation.name() + ": " +
                    why);
    if (const Line needed = property.needed(*one_case_, unsupported(implementation)); needed != *one_case_)
        throw Error("--case cannot be judged by " + property.name + "; it needs " + needed);
    if (const std::string why = implementation.unavailable(); !why.empty())
        throw Error("--case cannot be tried with " + implementation.name() + " here: " + why);
    if (const int most = system_.most_workers(*one_case_); !implementation.takes(most))
        throw Error("--case has " + std::to_string(most) +
                    " workers, more than mpirun has started; start as many with mpirun -n");
}

/// Checked now, not after the hours that the run may take.
void Check::check_that_results_can_be_written() const {
    std::string fault;
    if (group_->speaks())
        try {
            if (!settings_.json.empty() && !report::can_be_written(settings_.json))
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

void Check::check_settings() const {
    const auto at_least = [](const char* option, double value, double least) {
        if (!(value >= least))
            throw Error(std::string(option) + " is " + shortest(value) + "; at least " + shortest(least) +
                        " is needed");
    };
    at_least("--cases", settings_.cases, 0);
    at_least("--schedules", settings_.schedules.count, 1);
    at_least("--from-schedule", static_cast<double>(settings_.schedules.first), 1);
    at_least("--time-budget", settings_.time_budget, 0);
    at_least("--jobs", settings_.jobs, 0);
    at_least("--case-timeout", settings_.case_timeout, 0);
    at_least("--planted", settings_.planted.value_or(1), 1);
    if (settings_.planted && !settings_.implementations.empty())
        throw Error("--planted and --implementation exclude each other; leave one out");
    check_program();
    if (!(settings_.timeout >= 0.001 && settings_.timeout <= 31'536'000.0))
        throw Error("--timeout is " + shortest(settings_.timeout) + "; it must be 0.001 seconds to a year");
    if (settings_.one_case && (settings_.properties.size() != 1 || implementation_count() != 1))
        throw Error("--case needs exactly one --implementation and one --property");
    at_least("--pairs", settings_.pairs, 2);
    if (settings_.converge &&
        (settings_.matrix_only || !settings_.properties.empty() || group_->name() != "in_process"))
        throw Error("--converge only trains, over threads; leave out --matrix, "
                    "--property, --case and --communicator");
    if (settings_.matrix_only && !settings_.properties.empty())
        throw Error("--matrix and --property exclude each other; leave one out");
}

std::size_t Check::implementation_count() const {
    return settings_.planted || settings_.program ? 1 : settings_.implementations.size();
}

void Check::choose_implementations() {
    if (settings_.program) {
        chosen_ = {program()};
    } else if (settings_.planted) {
        chosen_ = {system_.planted(*settings_.planted, group_)};
    } else {
        auto all = system_.implementations(group_);
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
    const auto level = verify::parse_claimed_level(settings_.level).kind;
    for (const auto& implementation : chosen_)
        if (level == verify::LevelKind::exact && implementation->level() != level)
            throw Error(
                "--level exact is not available for " + implementation->name() +
                ": it adds in the communicator's own order; leave it out with --implementation, or use "
                "--level rel");
}

void Check::check_program() const {
    if (!settings_.program)
        return;
    if (settings_.planted || !settings_.implementations.empty())
        throw Error("--program excludes --implementation and --planted; leave one out");
    if (group_->name() != "in_process")
        throw Error("--program starts its ranks itself; leave out --communicator and mpirun");
}

std::shared_ptr<const Implementation> Check::program() const {
    ProgramSettings asked{
        .command = settings_.program.value(), .level = std::nullopt, .answer_seconds = settings_.timeout};
    if (!settings_.level.empty())
        asked.level = verify::parse_claimed_level(settings_.level).kind;
    try {
        return system_.program(asked, group_);
    } catch (const ProgramFailed& failed) {
        throw Error(std::string("--program: ") + failed.what());
    }
}

void Check::choose_pins() {
    for (const Override& pin : system_.overrides)
        if (const auto given = settings_.overrides.find(pin.option); given != settings_.overrides.end())
            for (const std::string& value : given->second)
                pin.check(value);
    pins_ = settings_.overrides;
    if (const auto workers = pins_.find("workers"); workers != pins_.end()) {
        for (const std::string& text : workers->second)
            if (!group_->takes(number_of_workers(text)))
                throw Error("--workers has " + text +
                            ", more than mpirun has started; start as many with mpirun -n");
        // Shrinking leads to the first value.
        std::ranges::sort(workers->second, {}, number_of_workers);
    }
    workers_by_default_ = !pins_.contains("workers") && group_->name() == "mpi";
    if (!workers_by_default_)
        return;
    if (!group_->takes(system_.fewest_workers))
        throw Error(system_.name + " has " + std::to_string(system_.fewest_workers) +
                    " ranks at least; start as many with mpirun -n");
    for (const int workers : usual_workers)
        if (workers >= system_.fewest_workers && group_->takes(workers))
            pins_["workers"].push_back(std::to_string(workers));
    if (most_workers() > usual_workers.back())
        pins_["workers"].push_back(std::to_string(most_workers()));
}

/// Draws fewer ranks where there are fewer devices than usual numbers of ranks, or than mpirun has started.
void Check::keep_to_what_it_takes(const Implementation& implementation, SearchOptions& options) const {
    // The most ranks that any system's properties draw: an implementation that takes them has no limit.
    constexpr int most_drawn = 33;
    const bool somebody_said = pins_.contains("workers") && !workers_by_default_;
    if (somebody_said || implementation.takes(workers_by_default_ ? most_workers() : most_drawn))
        return;
    std::vector<std::string> few;
    for (const int workers : usual_workers)
        if (workers >= system_.fewest_workers && group_->takes(workers) && implementation.takes(workers))
            few.push_back(std::to_string(workers));
    if (few.empty())
        return;
    options.overrides["workers"] = few;
    options.workers_by_default = true;
}

void Check::choose_what_is_left_out() {
    for (const std::string& name : settings_.without) {
        const bool known = std::ranges::any_of(system_.properties, [&](const Property& property) {
            return property.name == name || property.name.starts_with(name + ".");
        });
        if (!known)
            throw Error("--without has '" + name +
                        "'; it must be the name of a property, or what stands before the point in several; "
                        "see --list");
        without_[name] = "left out: --without " + name;
    }
}

Unsupported Check::unsupported(const Implementation& implementation) const {
    Unsupported all = implementation.unsupported();
    all.insert(without_.begin(), without_.end());
    return all;
}

void Check::print_list() const {
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
    std::printf("properties (number in the chapter of %s):\n", system_.name.c_str());
    for (const Property& property : system_.properties)
        std::printf("  %2s %-26s %s\n",
                    property.number == 0 ? "-" : std::to_string(property.number).c_str(),
                    property.name.c_str(), property.says.c_str());
}

int Check::most_workers() const {
    int most = 1;
    while (group_->name() == "mpi" && group_->takes(most + 1))
        ++most;
    return most;
}

/// The command that starts ranks on this machine, with the options that it needs.
static std::string launcher() {
    const char* given = std::getenv("TRUESTEP_MPIRUN");
    return given != nullptr && *given != '\0' ? given : "mpirun";
}

/// The options that choose what is tested.
std::string Check::chosen(const Implementation& implementation) const {
    if (settings_.planted)
        return " --planted " + std::to_string(*settings_.planted);
    if (!settings_.program)
        return " --implementation " + implementation.name();
    const auto given = [](const char* option, const std::string& value, bool is) {
        return is ? std::string(option) + shell_word(value) : std::string();
    };
    return " --program " + shell_word(*settings_.program) +
           given(" --level ", settings_.level, !settings_.level.empty()) +
           given(" --timeout ", shortest(settings_.timeout), settings_.timeout != CheckSettings{}.timeout);
}

std::string Check::command(const Implementation& implementation) const {
    std::string text = invocation_;
    if (group_->name() == "mpi")
        text = launcher() + " -n " + std::to_string(most_workers()) + " " + text + " --communicator mpi";
    std::string without;
    for (const std::string& name : settings_.without)
        without += (without.empty() ? " --without " : ",") + name;
    return text + chosen(implementation) + without;
}

std::string Check::narrowed(const SearchOptions& options) const {
    std::string text;
    for (const Override& pin : system_.overrides) {
        const auto found = options.overrides.find(pin.option);
        if (found == options.overrides.end() || found->second.empty())
            continue;
        std::string list;
        for (const std::string& value : found->second)
            list += (list.empty() ? "" : ",") + value;
        text += goes_by_set(system_, pin) ? " --set " + shell_word(pin.option + "=" + list)
                                          : " --" + pin.option + " " + shell_word(list);
    }
    const Schedules& schedules = settings_.schedules;
    if (schedules.use && (schedules.count != 1 || schedules.first != 1))
        text += " --from-schedule " + std::to_string(schedules.first) + " --schedules " +
                std::to_string(schedules.count);
    return text + " --cases " + std::to_string(options.cases) + " --seed " + std::to_string(settings_.seed);
}

std::string Check::command(const Implementation& implementation, const Property& property,
                           const Line& line) const {
    return command(implementation) + " --property " + property.name + " --case " + shell_word(line);
}

std::string Check::command(const Implementation& implementation, const Property& property,
                           const Counterexample& found) const {
    return command(implementation, property, found.line) +
           (found.schedule == 0 ? "" : " --from-schedule " + std::to_string(found.schedule));
}

} // namespace truestep::gate
