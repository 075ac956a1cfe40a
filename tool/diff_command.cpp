// Adds `truestep diff`, which finds where two traces of one system first differ in any bit.
#include "commands.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>

#include <truestep/problem/error.hpp>
#include <truestep/storage/safetensors.hpp>
#include <truestep/trace/rank_fingerprints.hpp>
#include <truestep/verify/diff.hpp>
#include <truestep/verify/report.hpp>

#include "systems.hpp"

namespace truestep::tool {

namespace {

/// A folder, an index, or safetensors that no recorder has written.
bool is_checkpoint(const std::filesystem::path& path) {
    if (std::filesystem::is_directory(path) || path.string().ends_with(".index.json"))
        return true;
    if (!std::filesystem::is_regular_file(path) || trace::holds_prints(path))
        return false;
    const storage::SafetensorsFile file(path);
    const auto format = file.metadata().find("format");
    return format == file.metadata().end() || !format->second.starts_with("scape-");
}

} // namespace

void add_diff(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("diff", "find where two traces first differ, in any bit");
    struct Settings {
        std::string a;
        std::string b;
    };
    auto settings = std::make_shared<Settings>();
    command->add_option("A", settings->a, "the trace that counts as expected")->required();
    command->add_option("B", settings->b, "the trace that is compared with it")->required();
    command->footer(
        "Exit status: 0 the same, 1 a difference, 2 bad input or usage.\n"
        "Example:\n"
        "  truestep diff two_gpus.safetensors four_gpus.safetensors\n"
        "  truestep diff 'a.rank*.safetensors' 'b.rank*.safetensors'\n"
        "Checkpoints of PyTorch: python -m truestep.checkpoints A B; the Python package's truestep diff\n"
        "does the same.");
    command->callback([settings, &status] {
        for (const std::string& path : {settings->a, settings->b})
            if (is_checkpoint(path))
                throw Error(path +
                            ": a checkpoint, not a trace; two checkpoints, however they are sharded, " +
                            "compares: python -m truestep.checkpoints " + settings->a + " " + settings->b);
        const gate::System& system = system_of_trace(settings->a);
        if (const gate::System& other = system_of_trace(settings->b); other.name != system.name)
            throw Error(settings->a + " is a trace of the system " + system.name + " and " + settings->b +
                        " one of " + other.name + "; compare two of one system");
        verify::TraceDifference result =
            verify::diff_traces({settings->a, system.traces.schema}, {settings->b, system.traces.schema});
        result.words = system.traces.words;
        std::fputs(text_report(result, settings->a, settings->b).c_str(), stdout);
        status = result.same() ? all_passed : difference;
    });
}

} // namespace truestep::tool
