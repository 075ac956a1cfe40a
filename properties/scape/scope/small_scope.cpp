// Every small problem, enumerated: docs/small-scope.md says what that proves.
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include <scape/planted/bugs.hpp>
#include <scape/planted/implementation.hpp>
#include <scape/problem/error.hpp>

#include "fibers.hpp"
#include "scopes.hpp"

namespace scape::scope {

namespace {

struct Settings {
    bool all = false;
    bool planted = false;
    std::string implementation = "host";
    std::string problem;
    std::string only;
    int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
};

Lab lab_of(const std::string& name) {
    auto group = make_fiber_group();
    if (name == "plain")
        return {planted::implementation(0, group), properties::reference_implementation()};
    std::string names = "plain";
    for (const auto& implementation : properties::all_implementations(group)) {
        if (implementation->name() == name && implementation->unavailable().empty())
            return {implementation, properties::reference_implementation()};
        names += ", " + implementation->name();
    }
    throw Error("--implementation is '" + name + "'; there are " + names);
}

/// Devices' ranks meet in their streams, each on a thread.
Lab lab_of_bug(int number) {
    const bool device = number > planted::bugs_of_section_10 && number < planted::first_that_shipped;
    const auto group = device ? gate::make_thread_group(std::chrono::seconds(60)) : make_fiber_group();
    return {planted::implementation(number, group), properties::reference_implementation()};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void tell(const Mismatch& mismatch, const std::string& implementation) {
    std::cout << "MISMATCH: " << mismatch.what << "\n";
    if (mismatch.problem.empty())
        std::cout << "  " << mismatch.batch << "\n";
    else
        std::cout << "  small_scope --implementation " << implementation << " --problem \""
                  << mismatch.problem << "\"\n";
}

int one_problem(const Settings& settings) {
    const Lab lab = lab_of(settings.implementation);
    const auto found = lab.judge(scenario_of(parse_tiny(settings.problem)));
    std::cout << (found ? "MISMATCH: " + found->text : "every bit is the reference's") << "\n";
    return found ? 1 : 0;
}

int enumerate(const Settings& settings) {
    static_cast<void>(lab_of(settings.implementation));
    int status = 0;
    for (const Scope& scope : all_scopes(settings.all ? Extent::all : Extent::quick)) {
        if (!settings.only.empty() && scope.name != settings.only)
            continue;
        const auto begin = std::chrono::steady_clock::now();
        Tally tally;
        run_tasks([&] { return lab_of(settings.implementation); }, settings.threads, scope.tasks, tally);
        std::printf("%-14s %11llu cases", scope.name.c_str(),
                    static_cast<unsigned long long>(tally.cases()));
        if (!scope.stands_for.empty())
            std::printf(" for %s", scope.stands_for.c_str());
        std::printf(", %.1f s: ", seconds_since(begin));
        if (const auto& mismatch = tally.mismatch()) {
            std::printf("FAILED\n");
            std::fflush(stdout);
            tell(*mismatch, settings.implementation);
            status = 1;
        } else {
            std::printf("%s\n", scope.proves.c_str());
        }
        std::fflush(stdout);
    }
    return status;
}

/// Which of the planted mistakes some scope sees, and which one first.
int planted_table(const Settings& settings) {
    const auto scopes = all_scopes(settings.all ? Extent::all : Extent::quick);
    int caught = 0;
    const auto judge = [&](int number, const std::string& name) {
        for (const Scope& scope : scopes) {
            Tally tally;
            run_tasks([&] { return lab_of_bug(number); }, settings.threads, scope.tasks, tally);
            if (const auto& mismatch = tally.mismatch()) {
                std::cout << number << " caught by " << scope.name << " (" << name
                          << "): " << mismatch->what << "\n"
                          << "    " << (mismatch->problem.empty() ? mismatch->batch : mismatch->problem)
                          << std::endl;
                return true;
            }
        }
        return false;
    };
    if (judge(0, "the clean one"))
        return 1;
    for (const planted::Description& bug : planted::bugs())
        if (judge(bug.number, bug.name))
            ++caught;
        else
            std::cout << bug.number << " NOT SEEN (" << bug.name << "): " << bug.shows << std::endl;
    std::cout << caught << " of " << planted::bugs().size() << " are seen\n";
    return 0;
}

int main(int count, char** arguments) {
    Settings settings;
    CLI::App app{
        "Every problem of at most 3 parameters, 3 ranks, 2 steps and gradients of {-2, -1, -0.5, 0, 0.5, "
        "1, 2}, by scopes (docs/small-scope.md)"};
    app.add_flag("--all", settings.all, "minutes in place of seconds");
    app.add_flag("--planted", settings.planted, "which planted mistakes are seen");
    app.add_option("--implementation", settings.implementation, "host, cuda-blocks, plain; default host");
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

} // namespace scape::scope

int main(int count, char** arguments) {
    return scape::scope::main(count, arguments);
}
