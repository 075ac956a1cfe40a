// Adds `truestep report`, which joins result files into one page and one JUnit file.
#include "commands.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>

#include <truestep/problem/error.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/report/page_data.hpp>
#include <truestep/report/summary.hpp>

namespace truestep::tool {

void add_report(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("report", "one page and one JUnit file of several result files");
    struct Settings {
        std::vector<std::string> files;
        std::string folder = "report";
        std::string summary;
        bool index = false;
    };
    auto settings = std::make_shared<Settings>();
    command->option_defaults()->always_capture_default();
    command->add_option("files", settings->files, "result files of check and planted (--json or --report)")
        ->required();
    command->add_option("--out", settings->folder, "the folder for index.html and junit.xml");
    command->add_option("--summary", settings->summary, report::summary_help);
    command->add_flag("--index", settings->index,
                      "one row for each file, with a link to the page beside it");
    command->footer(
        "Exit status: 0 written, 2 bad input or usage. The verdict is that of the commands that ran.\n"
        "Example:\n"
        "  truestep report --out report in_process.json mpi.json planted.json\n"
        "  truestep report --index --out runs runs/*/results.json");
    command->callback([settings, &status] {
        const std::vector<std::filesystem::path> files(settings->files.begin(), settings->files.end());
        const auto results = report::read_results(files);
        if (settings->index)
            report::write_index(settings->folder, files, results);
        else
            report::write_folder(settings->folder, results);
        report::add_summary(settings->summary, results);
        std::printf("report: %s/index.html\n", settings->folder.c_str());
        status = all_passed;
    });
}

} // namespace truestep::tool
