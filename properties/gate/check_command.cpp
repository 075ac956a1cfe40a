// Defines the options of `check`, and runs the gate on threads or as ranks of an MPI job.
#include <truestep/gate/check_command.hpp>

#include <algorithm>
#include <cerrno> // program_invocation_short_name
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>

#include <truestep/distributed/mpi.hpp>
#include <truestep/gate/did_you_mean.hpp>
#include <truestep/gate/system_commands.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/problem/timeline.hpp>

#include "check.hpp"

namespace truestep::gate {

namespace {

/// How the process was started, and the systems that it knows.
struct Invocation {
    const std::vector<std::string>& arguments;
    const std::vector<System>& systems;
    std::string invocation;
};

std::chrono::milliseconds timeout_of(const CheckSettings& settings) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(settings.timeout));
}

/// From here on an error may occur on one rank only, and the others must not wait for it.
int run_on_all(Check& check, const Group& group) {
    try {
        const int status = check.run();
        no_more_to_tell();
        return std::stoi(group.told(std::to_string(status)));
    } catch (const std::exception& error) {
        group.abort(error.what() + what_is_running());
        throw;
    }
}

/// Runs as one rank of a job of mpirun.
int run_mpi(const CheckSettings& settings, const Invocation& started) {
    int no_arguments = 0;
    char** none = nullptr;
    const distributed::MpiSession session(no_arguments, none);
    const auto group = make_mpi_group(timeout_of(settings), what_is_running);
    try {
        // All ranks draw rank 0's cases, whatever seed each was started with.
        CheckSettings same = settings;
        same.seed = std::stoull(group->told(std::to_string(settings.seed)));
        Check check(same, started.systems, group, started.arguments, started.invocation);
        return run_on_all(check, *group);
    } catch (const Error& error) {
        // All ranks have this error, since it is in the settings.
        if (group->speaks())
            std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, one_line(error.what()).c_str());
        return bad_input;
    }
}

int run(const CheckSettings& settings, const Invocation& started) {
    tell_of_crashes();
    if (settings.communicator == "in_process") {
        const int status = Check(settings, started.systems, make_thread_group(timeout_of(settings)),
                                 started.arguments, started.invocation)
                               .run();
        end_if_interrupted(); // by now its programs have ended
        return status;
    }
    if (settings.communicator == "mpi")
        return run_mpi(settings, started);
    throw Error("--communicator is '" + settings.communicator + "'; it must be in_process or mpi");
}

/// Adds the settings of a system's cases. The first are options; the others go by --set, and are options
/// that help does not show.
void add_pins(CLI::App& command, Overrides& overrides, const System& system) {
    command.option_defaults()->group("Settings of " + system.name);
    std::string table;
    std::vector<std::string> keys;
    for (const Override& pin : system.overrides) {
        const auto keep = [&overrides, name = pin.option](const std::vector<std::string>& values) {
            overrides[name] = values;
        };
        CLI::Option* option =
            command.add_option_function<std::vector<std::string>>("--" + pin.option, keep, pin.help);
        option->expected(1, pin.list ? -1 : 1);
        if (pin.list)
            option->delimiter(',');
        if (goes_by_set(system, pin)) {
            option->group("");
            keys.push_back(pin.option);
            table += "\n  " + pin.option + ": " + pin.help;
        }
    }
    if (keys.empty())
        return;
    const auto set = [&overrides, keys](const std::vector<std::string>& all) {
        for (const std::string& given : all) {
            const std::size_t equals = given.find('=');
            const std::string key = given.substr(0, equals);
            if (equals == std::string::npos || std::ranges::find(keys, key) == keys.end())
                throw Error("--set " + given + ": unknown KEY=VALUES" + did_you_mean(key, keys) +
                            " (use one of " + CLI::detail::join(keys, ", ") + ")");
            overrides[key] = CLI::detail::split(given.substr(equals + 1), ',');
        }
    };
    command
        .add_option_function<std::vector<std::string>>("--set", set, "values of other settings:" + table)
        ->type_name("KEY=VALUES")
        ->expected(1, -1);
}

/// Adds the options for what is checked, and by what.
void add_checked(CLI::App& command, CheckSettings& settings, const System& system) {
    command.option_defaults()->group("What is checked");
    command
        .add_option("--implementation", settings.implementations, "implementations to check; default: all")
        ->delimiter(',');
    // Your own gate has neither our implementations nor known bugs.
    if (!system.known_bugs.empty())
        command.add_option("--planted", settings.planted,
                           "check the implementation with this known bug instead: 1 to " +
                               std::to_string(system.known_bugs.size()) + "; 'truestep planted " +
                               system.name + " --list'");
    if (system.program)
        command.add_option("--program", settings.program,
                           "check a program of any language instead, started once a rank: "
                           "'python3 my_optimizer.py'; docs/program-protocol.md");
    command.add_option("--communicator", settings.communicator,
                       "in_process (threads) or mpi (started by mpirun)");
    command.add_flag("--matrix", settings.matrix_only, "only the matrix, no properties");
    command.add_option("--property", settings.properties, "only these properties, no matrix; see --list")
        ->delimiter(',');
    command
        .add_option("--without", settings.without,
                    "leave out these properties, or all with these prefixes: restart,traffic")
        ->delimiter(',');
    if (system.train) {
        command.add_flag("--converge", settings.converge,
                         "instead of matrix and properties: train a small model with each implementation "
                         "and with the reference, in pairs, and compare the losses "
                         "(docs/training.md)");
        command.add_option("--pairs", settings.pairs,
                           "pairs of runs of each implementation, with --converge");
    }
    command.add_option("--case", settings.one_case, "one case, as a failure prints it, with one property");
    command.add_option("--level", settings.level,
                       "the level to require: exact or rel; for a program the level at which it is judged");
}

void add_amounts(CLI::App& command, CheckSettings& settings,
                 const std::function<void(std::uint64_t)>& use_schedule) {
    command.option_defaults()->group("How much and how long");
    command.add_option("--cases", settings.cases,
                       "cases of each row and property; default: 4 and 1 larger for a row, 100 for a "
                       "property, and half as many for -native, which only adds in another order");
    command.add_option("--seed", settings.seed, "seed of all cases");
    if (use_schedule) {
        settings.schedules.use = use_schedule;
        command.add_option("--schedules", settings.schedules.count,
                           "in how many orders of blocks, warps, streams and arrivals each case is tried; "
                           "--from-schedule, which a failure prints, is the first of them");
        command.add_option("--from-schedule", settings.schedules.first)->group("");
    }
    command.add_flag("--thorough", settings.thorough, "50 cases a row and 2000 a property");
    command.add_option("--time-budget", settings.time_budget,
                       "seconds after which no case is started; 0: no limit");
    command.add_flag("--must-finish", settings.must_finish,
                     "fail if the time budget ends it before all is done");
    command.add_option("--timeout", settings.timeout, "seconds after which a silent rank ends a run");
    command.add_option("--case-timeout", settings.case_timeout,
                       "seconds after which a case has failed, whatever it does; 0: three times --timeout");
    command.add_option("--jobs", settings.jobs,
                       "processes at work at a time, so that a crash is a failure; 0: all in this one");
}

void add_results(CLI::App& command, CheckSettings& settings) {
    command.option_defaults()->group("What is printed and written");
    command
        .add_flag("--list", settings.list,
                  "list implementations and properties, and end; --list=edges counts the cases at the "
                  "edges of the constants that cut work up, and their settings (docs/edges.md)")
        ->check(CLI::IsMember({"true", "edges"}).description(""));
    command.add_flag("--brief", settings.brief, "print failures and the sum only");
    command.add_flag("--verbose", settings.verbose, "print each command before it is run");
    command.add_option("--save", settings.save, "keep shrunk failing cases as traces in this folder");
    command.add_option("--json", settings.json, "write the results to this file (docs/results.md)");
    command.add_option("--report", settings.report,
                       "write results.json, index.html and junit.xml to this folder");
    problem::add_timeline_option(command);
}

} // namespace

void set_up_check(CLI::App& all, int& status, const std::vector<std::string>& arguments,
                  const std::vector<System>& systems, const std::string& invocation,
                  const std::function<void(std::uint64_t)>& use_schedule) {
    by_system(all, systems, [&](CLI::App& command, const System& system, const std::string& words) {
        auto settings = std::make_shared<CheckSettings>();
        settings->system = system.name;
        command.option_defaults()->always_capture_default();
        add_checked(command, *settings, system);
        add_pins(command, settings->overrides, system);
        add_amounts(command, *settings, use_schedule);
        add_results(command, *settings);
        const std::string shown = "  " + full_name(all) + words;
        command.footer(
            "Exit status: 0 all passed, 1 a difference, 2 bad input or usage; under mpirun 3 if a rank "
            "failed.\nExamples:\n" +
            shown + " --report report\n" + shown + " --workers 3,5\n" +
            (system.known_bugs.empty() ? "" : shown + " --planted 5\n") +
            (system.train ? shown + " --converge\n" : "") +
            (system.program ? shown + " --program 'python3 my_optimizer.py'\n" : "") + shown +
            " --thorough --time-budget 3600\n  mpirun -n 8" + shown.substr(1) + " --communicator mpi");
        const auto started =
            std::make_shared<Invocation>(Invocation{arguments, systems, invocation + words});
        command.callback([settings, &status, started] { status = run(*settings, *started); });
    });
}

} // namespace truestep::gate
