#include "commands.hpp"

#include <algorithm>
#include <array>
#include <cerrno> // program_invocation_short_name
#include <csignal>
#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include <unistd.h>

#include <truestep/gate/results.hpp>
#include <truestep/gate/terminal.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/storage/files.hpp>
#include <truestep/verify/traces.hpp>

#include "systems.hpp"

namespace truestep::tool {

namespace {

using Takes = verify::Setting::Takes;

struct Asked {
    std::string output;
    std::string system;
    verify::Settings::Given given;
    bool phases = false;
    std::string replicas = "none";
};

/// What a handler of signals removes; it may call little else than unlink().
std::array<char, 4096> unfinished{};

void remove_unfinished(int signal) {
    unlink(unfinished.data());
    std::signal(signal, SIG_DFL);
    static_cast<void>(std::raise(signal));
}

/// Whoever interrupts a record finds no half of one.
void leave_nothing_of(const std::string& output) {
    const storage::Destination destination = storage::disk().destination(output);
    const std::string partial = destination.first;
    if (destination.in_place() || partial.size() >= unfinished.size())
        return;
    std::ranges::copy(partial, unfinished.begin());
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE})
        if (std::signal(signal, SIG_IGN) != SIG_IGN) // as under nohup, where it stays ignored
            std::signal(signal, remove_unfinished);
}

/// The command that makes the same bytes again: all arguments but the place of the output.
std::string source(const std::vector<std::string>& arguments) {
    std::string text = program_invocation_short_name;
    for (std::size_t i = 1; i < arguments.size(); ++i) {
        if (arguments[i] == "-o" || arguments[i] == "--output")
            ++i;
        else if (!arguments[i].starts_with("--output=") && !arguments[i].starts_with("-o"))
            text += " " + gate::shell_word(arguments[i]);
    }
    return text;
}

void run(const Asked& asked, const std::vector<std::string>& arguments) {
    const gate::System& system = gate::find_system(all_systems(), asked.system);
    if (system.traces.algorithms.empty())
        throw Error("--system " + system.name + " has no traces; there are those of " + with_traces());
    verify::MadeUpRun made_up{asked.output,
                              verify::Settings(system.traces.settings, asked.given, system.name),
                              asked.phases, trace::parse_replicas(asked.replicas), source(arguments)};
    gate::Progress progress(asked.output);
    leave_nothing_of(asked.output);
    made_up.progress = [&](verify::Index step, verify::Index steps) { progress.show(step, steps); };
    system.traces.record(made_up);
    say_written("", asked.output);
}

/// What a setting is in systems other than the first that has it, where its default is another there:
/// "; gasloc: number of rounds [6]".
std::string elsewhere(const verify::Setting& first) {
    std::string text;
    for (const gate::System& system : all_systems())
        for (const verify::Setting& setting : system.traces.settings)
            if (setting.option == first.option && setting.value != first.value)
                text += "; " + system.name + ": " + (setting.help == first.help ? "" : setting.help + " ") +
                        "[" + setting.value + "]";
    return text;
}

/// The settings of all systems, each once; which a system has is checked when it is known.
void add_settings(CLI::App& command, verify::Settings::Given& given) {
    std::set<std::string> known;
    for (const gate::System& system : all_systems())
        for (const verify::Setting& setting : system.traces.settings) {
            if (!known.insert(setting.option).second)
                continue;
            const auto keep = [&given, name = setting.option](const std::vector<std::string>& values) {
                given[name] = values;
            };
            CLI::Option* option = command.add_option_function<std::vector<std::string>>(
                "--" + setting.option, keep, setting.help + elsewhere(setting));
            option->default_str(setting.value);
            if (setting.takes == Takes::one)
                option->expected(1);
            else
                option->expected(1, -1);
        }
}

} // namespace

void say_written(const char* what, const std::string& output) {
    gate::Progress::clear();
    if (!storage::disk().destination(output).in_place())
        std::printf("%s%s\n", what, output.c_str());
}

void add_record(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
    CLI::App* command =
        app.add_subcommand("record", "run the reference on made-up gradients and write a trace");
    auto asked = std::make_shared<Asked>();
    asked->system = all_systems().front().name;
    command->option_defaults()->always_capture_default();
    command->add_option("-o,--output", asked->output, "the trace to write")->required();
    command->add_option("--system", asked->system, "whose reference: " + with_traces());
    add_settings(*command, asked->given);
    command->add_flag(
        "--phases", asked->phases,
        "also record what is between: local vectors, the exchanged mean, the reconstructed gradient");
    command->add_option("--replicas", asked->replicas,
                        "of what has to be the same on all ranks: none (recorded once), copies (each "
                        "rank's own) or fingerprints (once, and a number a rank)");
    command->footer(
        "Exit status: 0 written, 2 bad input or usage.\n"
        "Examples:\n"
        "  truestep record -o run.safetensors --workers 5 --density 0.01 --tensors wq:3000,norm:64:dense\n"
        "  truestep record -o clip.safetensors --clip-norm 0.5 --phases\n"
        "  truestep record -o refused.safetensors --steps 4 --inject 2:1:17:nan");
    command->callback([asked, &status, &arguments] {
        run(*asked, arguments);
        status = all_passed;
    });
}

} // namespace truestep::tool
