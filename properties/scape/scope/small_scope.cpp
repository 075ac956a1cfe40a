// Enumerates every small problem: docs/small-scope.md explains what that proves.
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/properties/scape/planted/bugs.hpp>
#include <truestep/properties/scape/planted/implementation.hpp>

#include "fiber_group.hpp"
#include "scopes.hpp"

namespace truestep::properties::scape::scope {

namespace {

struct Settings {
    bool all = false;
    bool planted = false;
    std::string implementation = "host";
    std::string problem;
    std::string only;
    std::size_t variant = 0;
    int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
};

SmallScopeHarness lab_of_bug(int number) {
    if (planted::is_of_devices(number))
        throw Error("planted-" + std::to_string(number) +
                    " is of code for devices, whose ranks have to be threads");
    return {planted::implementation(number, make_fiber_group()),
            properties::scape::reference_implementation()};
}

int number_of(const std::string& text) {
    const auto number = parse_number<int>(text);
    if (!number)
        throw Error("'" + text + "' is not the number of a known bug; see truestep planted --list");
    return *number;
}

SmallScopeHarness lab_of(const Settings& settings) {
    const std::string& name = settings.implementation;
    constexpr std::string_view known_bug = "planted-";
    if (name == "plain" || name.starts_with(known_bug))
        return lab_of_bug(name == "plain" ? 0 : number_of(name.substr(known_bug.size())));
    std::string names = "plain, planted-1 and so on";
    for (const auto& implementation : properties::scape::all_implementations(make_fiber_group())) {
        if (implementation->name() != name || !implementation->unavailable().empty()) {
            names += ", " + implementation->name();
            continue;
        }
        if (settings.variant >= implementation->variants().size())
            throw Error("--variant is " + std::to_string(settings.variant) + "; " + name + " has " +
                        std::to_string(implementation->variants().size()) + ", the first is 0");
        return {implementation, properties::scape::reference_implementation(), settings.variant};
    }
    throw Error("--implementation is '" + name + "'; there are " + names);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void tell(const Mismatch& mismatch, const Settings& settings) {
    std::cout << "MISMATCH: " << mismatch.what << "\n";
    if (mismatch.problem.empty())
        std::cout << "  " << mismatch.batch << "\n";
    else
        std::cout << "  small_scope --implementation " << settings.implementation
                  << (settings.variant == 0 ? "" : " --variant " + std::to_string(settings.variant))
                  << " --problem \"" << mismatch.problem << "\"\n";
}

int one_problem(const Settings& settings) {
    const SmallScopeHarness lab = lab_of(settings);
    const auto found = lab.judge(scenario_of(parse_tiny(settings.problem)));
    std::cout << (found ? "MISMATCH: " + found->text : "every bit is the reference's") << "\n";
    return found ? 1 : 0;
}

/// Goes through a scope, prints one line, and returns whether it found nothing.
bool passes(const Scope& scope, const Settings& settings) {
    const auto begin = std::chrono::steady_clock::now();
    Tally tally;
    run_tasks([&] { return lab_of(settings); }, settings.threads, scope.tasks, tally);
    std::printf("%-15s %11llu cases", scope.name.c_str(), static_cast<unsigned long long>(tally.cases()));
    if (!scope.stands_for.empty())
        std::printf(" for %s", scope.stands_for.c_str());
    std::printf(", %.1f s: %s\n", seconds_since(begin), tally.mismatch() ? "FAILED" : scope.proves.c_str());
    std::fflush(stdout);
    if (tally.mismatch())
        tell(*tally.mismatch(), settings);
    return !tally.mismatch();
}

int enumerate(const Settings& settings) {
    const auto variants = lab_of(settings).implementation->variants();
    bool good = true;
    for (const Scope& scope : all_scopes(settings.all ? Extent::all : Extent::quick))
        if (settings.only.empty() || scope.name == settings.only)
            good = passes(scope, settings) && good;
    // The same work with other kernels, among them those that other machines use.
    for (std::size_t other = 0; settings.all && settings.only.empty() && other < variants.size(); ++other) {
        if (other == settings.variant)
            continue;
        std::cout << "with " << variants[other] << ":" << std::endl;
        Settings others = settings;
        others.variant = other;
        for (const auto& make : {segments, coordinates, choices, drawn_segments})
            good = passes(make(Extent::quick), others) && good;
    }
    return good ? 0 : 1;
}

/// Why a known bug is beyond every scope here.
std::string beyond(int number) {
    static const std::map<std::string, std::set<int>> all{
        {"needs messages that come late", {41}},
        {"needs a restart", {46, 47, 48, 70, 71, 82, 96, 152}},
        {"needs a gradient that has to be refused", {49, 50, 51}},
        {"needs subnormals", {52}},
        {"needs 65,536 selected coordinates", {86}},
        {"needs 256 steps, or 65,536", {87, 97}},
        {"needs values that grow without bound", {98}},
        {"needs a learning rate that changes, or is 0", {94, 95}},
        {"needs a gradient in parts or buckets",
         {99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110}},
        {"needs a norm of several blocks", {111, 112, 113}},
        {"needs a payload of bf16", {114, 115, 116, 117, 118, 129, 130}},
        {"needs a payload of e5m2", {119, 120, 121, 122, 123, 124, 131}},
        {"needs ranks in groups", {132, 133, 134, 135, 136, 137}},
        {"needs means that are rounded", {138, 139, 140, 141}},
        {"needs a damaged checkpoint", {125, 126, 127, 128}},
        {"needs ranks that are given different things, or what cannot be", {146, 147, 148, 149}},
    };
    for (const auto& [why, numbers] : all)
        if (numbers.contains(number))
            return why;
    return "";
}

/// Which of the known bugs some scope detects, and which scope first. Of the bugs beyond all scopes one
/// goes through them, which takes as long as a clean implementation; with --all each does.
int planted_table(const Settings& settings) {
    const auto scopes = all_scopes(Extent::quick);
    bool one_was_beyond = false;
    int seen = 0;
    int asked = 0;
    int status = 0;
    const auto judge = [&](int number, const std::string& name) {
        for (const Scope& scope : scopes) {
            Tally tally;
            run_tasks([number] { return lab_of_bug(number); }, settings.threads, scope.tasks, tally);
            if (const auto& mismatch = tally.mismatch()) {
                std::cout << number << " | " << name << " | " << scope.name << " | " << mismatch->what
                          << " | " << (mismatch->problem.empty() ? mismatch->batch : mismatch->problem)
                          << std::endl;
                return true;
            }
        }
        return false;
    };
    if (judge(0, "none")) {
        std::cout << "the clean one is accused\n";
        return 1;
    }
    for (const planted::Description& bug : planted::bugs()) {
        if (planted::is_of_devices(bug.number))
            continue;
        const std::string why = beyond(bug.number);
        if (!why.empty() && std::exchange(one_was_beyond, true) && !settings.all)
            continue;
        ++asked;
        const bool is_seen = judge(bug.number, bug.name);
        seen += is_seen ? 1 : 0;
        if (!is_seen)
            std::cout << bug.number << " | " << bug.name << " | not seen | "
                      << (why.empty() ? "UNEXPLAINED: " + bug.shows : why) << std::endl;
        if (is_seen != why.empty())
            status = 1;
    }
    std::cout << seen << " of " << asked << " known bugs are detected; "
              << (status == 0 ? "each of the others needs what no scope has"
                              : "the list of the others is not true")
              << "\n";
    return status;
}

int main(int count, char** arguments) {
    Settings settings;
    CLI::App app{
        "Every problem of at most 3 parameters, 3 ranks, 2 steps and gradients of {-2, -1, -0.5, 0, 0.5, "
        "1, 2}, by scopes (docs/small-scope.md)"};
    app.add_flag("--all", settings.all, "minutes in place of seconds");
    app.add_flag("--planted", settings.planted,
                 "which known bugs are detected; with --all also show of each other bug that it is not");
    app.add_option("--implementation", settings.implementation,
                   "host, cuda-blocks, plain, planted-1 and so on; default host");
    app.add_option("--variant", settings.variant, "which of the implementation's kernels, by number");
    app.add_option("--problem", settings.problem, "one problem, as a mismatch prints it");
    app.add_option("--scope", settings.only, "one scope, by its name");
    app.add_option("--threads", settings.threads, "how many share the work")->check(CLI::Range(1, 1024));
    CLI11_PARSE(app, count, arguments);
    try {
        if (!settings.problem.empty())
            return one_problem(settings);
        return settings.planted ? planted_table(settings) : enumerate(settings);
    } catch (const Error& error) {
        std::cerr << "small_scope: " << error.what() << "\n";
    } catch (const std::exception& error) {
        std::cerr << "small_scope: " << error.what() << "\n";
    }
    return 2;
}

} // namespace

} // namespace truestep::properties::scape::scope

int main(int count, char** arguments) {
    return truestep::properties::scape::scope::main(count, arguments);
}
