// Adds `truestep report`, which joins result files into one page and one JUnit file.
#include "commands.hpp"

#include <cstdio>
#include <memory>

#include <truestep/problem/error.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/report/page_data.hpp>

namespace truestep::tool {

void add_report(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("report", "one page and one JUnit file of several result files");
    struct Settings {
        std::vector<std::string> files;
        std::string folder = "report";
    };
    auto settings = std::make_shared<Settings>();
    command->option_defaults()->always_capture_default();
    command->add_option("files", settings->files, "result files of check and planted (--json or --report)")
        ->required();
    command->add_option("--out", settings->folder, "the folder for index.html and junit.xml");
    command->footer(
        "Exit status: 0 written, 2 bad input or usage. The verdict is that of the commands that ran.\n"
        "Example:\n"
        "  truestep report --out report in_process.json mpi.json planted.json");
    command->callback([settings, &status] {
        report::write_folder(settings->folder,
                             report::read_results({settings->files.begin(), settings->files.end()}));
        std::printf("report: %s/index.html\n", settings->folder.c_str());
        status = all_passed;
    });
}

} // namespace truestep::tool
