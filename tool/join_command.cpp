// Adds `truestep join`, which joins the files of a run's ranks into one trace.
#include "commands.hpp"

#include <cstdio>
#include <memory>

#include <truestep/trace/bundle.hpp>
#include <truestep/trace/ranks.hpp>

namespace truestep::tool {

void add_join(CLI::App& app, int& status) {
    CLI::App* command =
        app.add_subcommand("join", "join the files that the ranks of a run wrote into one trace");
    struct Settings {
        std::vector<std::string> files;
        std::string output;
    };
    auto settings = std::make_shared<Settings>();
    command->add_option("FILE", settings->files, "the files of all ranks")->required();
    command->add_option("-o,--output", settings->output, "the trace to write")->required();
    command->footer("verify and diff take the files as they are, too; one is easier to hand on.\n"
                    "Exit status: 0 written, 2 bad input or usage.\n"
                    "Example:\n"
                    "  truestep join run.rank*.safetensors -o run.safetensors");
    command->callback([settings, &status] {
        trace::join(trace::run_of({settings->files.begin(), settings->files.end()}), settings->output);
        say_written("joined: ", settings->output);
        status = all_passed;
    });
}

} // namespace truestep::tool
