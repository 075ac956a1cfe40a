#include <truestep/gate/check_command.hpp>

#include <algorithm>
#include <cerrno> // program_invocation_short_name
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <set>

#include <truestep/distributed/mpi.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "check.hpp"

namespace truestep::gate {

namespace {

/// How the process was started, and with which systems.
struct Started {
    const std::vector<std::string>& arguments;
    const std::vector<System>& systems;
    std::string invocation;
};

std::chrono::milliseconds timeout_of(const CheckSettings& settings) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(settings.timeout));
}

/// From here on an error may be of one rank alone, and the others must not wait for it.
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

/// Every rank is a process of this program, started by mpirun.
int run_mpi(const CheckSettings& settings, const Started& started) {
    int no_arguments = 0;
    char** none = nullptr;
    const distributed::MpiSession session(no_arguments, none);
    const auto group = make_mpi_group(timeout_of(settings), what_is_running);
    try {
        // All ranks draw rank 0's cases, whatever each was started with.
        CheckSettings same = settings;
        same.seed = std::stoull(group->told(std::to_string(settings.seed)));
        Check check(same, started.systems, group, started.arguments, started.invocation);
        return run_on_all(check, *group);
    } catch (const Error& error) {
        // The same on all ranks: of the settings.
        if (group->speaks())
            std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, one_line(error.what()).c_str());
        return bad_input;
    }
}

int run(const CheckSettings& settings, const Started& started) {
    tell_of_crashes();
    if (settings.communicator == "in_process") {
        const int status = Check(settings, started.systems, make_thread_group(timeout_of(settings)),
                                 started.arguments, started.invocation)
                               .run();
        end_if_interrupted(); // by now its programs are gone
        return status;
    }
    if (settings.communicator == "mpi")
        return run_mpi(settings, started);
    throw Error("--communicator is '" + settings.communicator + "'; it must be in_process or mpi");
}

/// The pins of all systems, each once; which a system has is checked when it is known.
void add_pins(CLI::App& command, Pins& pins, const std::vector<System>& systems) {
    std::set<std::string> known;
    for (const System& system : systems)
        for (const Pin& pin : system.pins) {
            if (!known.insert(pin.option).second)
                continue;
            const auto keep = [&pins, option = pin.option](const std::vector<std::string>& values) {
                pins[option] = values;
            };
            CLI::Option* option =
                command.add_option_function<std::vector<std::string>>("--" + pin.option, keep, pin.help);
            option->expected(1, -1);
            if (pin.list)
                option->delimiter(',');
            else
                option->expected(1);
        }
}

} // namespace

std::string numbers_of_mistakes(const std::vector<System>& systems) {
    std::string all;
    for (const System& system : systems)
        if (!system.mistakes.empty())
            all += (all.empty() ? "1 to " : ", 1 to ") + std::to_string(system.mistakes.size()) + " of " +
                   system.name;
    return all.empty() ? "this gate has none" : all;
}

void set_up_check(CLI::App& command, int& status, const std::vector<std::string>& arguments,
                  const std::vector<System>& systems, const std::string& invocation,
                  const std::function<void(std::uint64_t)>& use_schedule) {
    auto settings = std::make_shared<CheckSettings>();
    settings->system = systems.front().name;
    command.option_defaults()->always_capture_default();
    std::string names;
    for (const System& system : systems)
        names += (names.empty() ? "" : ", ") + system.name;
    command.add_option("--system", settings->system, "whose gate: " + names);
    command.add_option("--communicator", settings->communicator,
                       "in_process (threads) or mpi (started by mpirun)");
    command.add_option("--implementation", settings->implementations, "which; all without it")
        ->delimiter(',');
    command.add_option("--planted", settings->planted,
                       "in their place one with this planted bug: " + numbers_of_mistakes(systems) +
                           "; 'truestep planted --list'");
    command.add_option("--program", settings->program,
                       "in their place a program of any language, started once a rank: "
                       "'python3 my_optimizer.py'; docs/program-protocol.md");
    command.add_option("--name", settings->name, "what to call the program; without it, what it says");
    add_pins(command, settings->pins, systems);
    command.add_flag("--matrix", settings->matrix_only, "only the matrix, no properties");
    command.add_option("--property", settings->properties, "only these properties, no matrix; see --list")
        ->delimiter(',');
    command
        .add_option("--without", settings->without,
                    "leave out these properties, or all whose names begin so: restart,traffic")
        ->delimiter(',');
    if (std::ranges::any_of(systems, [](const System& system) { return system.train != nullptr; })) {
        command.add_flag("--converge", settings->converge,
                         "in place of matrix and properties: train a small model with each implementation "
                         "and with the reference, in pairs, and say whether it learns as much "
                         "(docs/training.md)");
        command.add_option("--pairs", settings->pairs, "of these runs, of each implementation");
    }
    command.add_option("--case", settings->one_case, "one case, as a failure prints it, with one property");
    command.add_option("--cases", settings->cases,
                       "cases of each row and property; without it 4 and 1 larger, and 100, and half as "
                       "many of what differs from another in the order of its sums alone (-native)");
    command.add_option("--seed", settings->seed, "all cases follow from it");
    if (use_schedule) {
        settings->schedules.use = use_schedule;
        command.add_option("--schedules", settings->schedules.count,
                           "in how many orders of blocks, warps, streams and arrivals each case is tried");
        command.add_option("--from-schedule", settings->schedules.first,
                           "the first of these, as a failure prints it");
    }
    command.add_option("--level", settings->level,
                       "the level to insist on: exact or rel; of a program, the one to hold it to");
    command.add_flag("--thorough", settings->thorough, "50 cases a row and 2000 a property");
    command.add_option("--time-budget", settings->time_budget,
                       "seconds after which nothing more is begun; 0: none");
    command.add_flag("--must-finish", settings->must_finish,
                     "fail if the time budget ends it before all is done");
    command.add_option("--timeout", settings->timeout, "seconds after which a silent rank ends a run");
    command.add_option("--case-timeout", settings->case_timeout,
                       "seconds after which a case has failed, whatever it does; 0: three times --timeout");
    command.add_option("--jobs", settings->jobs,
                       "processes at work at a time, so that a crash is a failure; 0: all in this one");
    command.add_flag("--list", settings->list, "list implementations and properties, and end");
    command.add_flag("--brief", settings->brief, "print failures and the sum only");
    command.add_flag("--verbose", settings->verbose, "print each command before it is run");
    command.add_option("--save", settings->save, "keep shrunk failing cases as traces in this folder");
    command.add_option("--json", settings->json, "write the results to this file (docs/results.md)");
    command.add_option("--report", settings->report,
                       "write results.json, index.html and junit.xml to this folder");
    // A gate of somebody's own has neither our implementations nor planted mistakes.
    const bool has_mistakes = !systems.front().mistakes.empty();
    command.footer(
        "Exit status: 0 all passed, 1 a difference, 2 bad input or usage; under mpirun 3 if a rank "
        "failed.\n"
        "Examples:\n  " +
        invocation + " --report report\n  " + invocation + " --workers 3,5 --without restart\n  " +
        (has_mistakes ? invocation + " --planted 6\n  " : std::string()) +
        (systems.front().train ? invocation + " --converge\n  " : std::string()) + invocation +
        " --program 'python3 my_optimizer.py'\n  " + invocation +
        " --thorough --time-budget 3600\n  mpirun -n 8 " + invocation + " --communicator mpi");
    const auto started = std::make_shared<Started>(Started{arguments, systems, invocation});
    command.callback([settings, &status, started] { status = run(*settings, *started); });
}

} // namespace truestep::gate
