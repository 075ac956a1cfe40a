// Adds `truestep record`, which writes synthetic runs of the reference as traces.
#include "commands.hpp"

#include <algorithm>
#include <array>
#include <cerrno> // program_invocation_short_name
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include <unistd.h>

#include <truestep/gate/results.hpp>
#include <truestep/gate/system_commands.hpp>
#include <truestep/gate/terminal.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/storage/files.hpp>
#include <truestep/verify/traces.hpp>

#include "systems.hpp"

namespace truestep::tool {

namespace {

using ValueCount = verify::Setting::ValueCount;

struct RecordArguments {
    std::string output;
    verify::Settings::Given given;
    bool phases = false;
    std::string replicas = "none";
};

/// The file that a signal handler removes; it may call little besides unlink().
std::array<char, 4096> unfinished{};

void remove_unfinished(int signal) {
    unlink(unfinished.data());
    std::signal(signal, SIG_DFL);
    static_cast<void>(std::raise(signal));
}

/// Removes a partial file if the user interrupts the recording.
void leave_nothing_of(const std::string& output) {
    const storage::Destination destination = storage::disk().destination(output);
    const std::string partial = destination.first;
    if (destination.in_place() || partial.size() >= unfinished.size())
        return;
    std::ranges::copy(partial, unfinished.begin());
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE})
        if (std::signal(signal, SIG_IGN) != SIG_IGN) // ignored signals stay ignored, as under nohup
            std::signal(signal, remove_unfinished);
}

/// The command that makes the same bytes again: all arguments except the output.
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

void run(const RecordArguments& asked, const gate::System& system,
         const std::vector<std::string>& arguments) {
    verify::SyntheticRun synthetic{asked.output,
                                   verify::Settings(system.traces.settings, asked.given, system.name),
                                   asked.phases, trace::parse_replicas(asked.replicas), source(arguments)};
    gate::Progress progress(asked.output);
    leave_nothing_of(asked.output);
    synthetic.progress = [&](verify::Index step, verify::Index steps) { progress.show(step, steps); };
    system.traces.record(synthetic);
    say_written("", asked.output);
}

void add_settings(CLI::App& command, verify::Settings::Given& given, const gate::System& system) {
    command.option_defaults()->group("Settings of " + system.name);
    for (const verify::Setting& setting : system.traces.settings) {
        const auto keep = [&given, name = setting.option](const std::vector<std::string>& values) {
            given[name] = values;
        };
        command.add_option_function<std::vector<std::string>>("--" + setting.option, keep, setting.help)
            ->default_str(setting.value)
            ->expected(1, setting.takes == ValueCount::one ? 1 : -1);
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
        app.add_subcommand("record", "run the reference on synthetic gradients and write a trace");
    const auto set_up = [&](CLI::App& one, const gate::System& system, const std::string& words) {
        auto asked = std::make_shared<RecordArguments>();
        one.option_defaults()->always_capture_default()->group("What is written");
        one.add_option("-o,--output", asked->output, "the trace to write")->required();
        one.add_flag("--phases", asked->phases,
                     "also record intermediate results: local vectors, the exchanged mean, the "
                     "reconstructed gradient");
        one.add_option(
            "--replicas", asked->replicas,
            "what is recorded of vectors that all ranks share: none (recorded once), copies (each "
            "rank's own) or fingerprints (once, and a number for each rank)");
        add_settings(one, asked->given, system);
        one.footer("Exit status: 0 written, 2 bad input or usage.\nExamples:\n  truestep record" + words +
                   " -o run.safetensors --steps 4" +
                   (words.empty() ? "\n  truestep record -o run.safetensors --workers 5 --density 0.01 "
                                    "--tensors wq:3000,norm:64:dense\n"
                                    "  truestep record -o clip.safetensors --clip-norm 0.5 --phases\n"
                                    "  truestep record -o refused.safetensors --steps 4 --inject 2:1:17:nan"
                                  : ""));
        one.callback([asked, &system, &status, &arguments] {
            run(*asked, system, arguments);
            status = all_passed;
        });
    };
    gate::by_system(*command, all_systems(), set_up,
                    [](const gate::System& system) { return !system.traces.algorithms.empty(); });
}

} // namespace truestep::tool
