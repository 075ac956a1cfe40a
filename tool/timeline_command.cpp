// Adds `truestep timeline`, which adds up what --timeline has written, and draws it.
#include "commands.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>

#include <truestep/problem/error.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/report/timeline.hpp>

namespace truestep::tool {

void add_timeline(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("timeline", "what the ranks of a run did and waited for");
    struct Settings {
        std::string file;
        std::string picture;
        double from = 0;
        double until = std::numeric_limits<double>::infinity();
    };
    auto settings = std::make_shared<Settings>();
    command->add_option("FILE", settings->file, "what --timeline or TRUESTEP_TIMELINE has written")
        ->required();
    command->add_option("--svg", settings->picture, "draw it into this file");
    command->add_option("--from", settings->from, "milliseconds at which the picture begins; default: 0");
    command->add_option("--until", settings->until, "milliseconds at which it ends; default: the end");
    command->footer("Exit status: 0 printed, 2 bad input or usage. Perfetto opens the same file.\n"
                    "Example:\n"
                    "  truestep train --text README.md --steps 20 --timeline run.json\n"
                    "  truestep timeline run.json --svg run.svg --from 100 --until 120");
    command->callback([settings, &status] {
        const auto spans = report::read_timeline(settings->file);
        double end = 0;
        for (const report::TimelineSpan& span : spans)
            end = std::max(end, span.end);
        const double until = std::min(settings->until, end);
        if (!(settings->from < until))
            throw Error("--from is not before --until, or not before the end of the timeline; give less");
        std::fputs(report::timeline_table(spans).c_str(), stdout);
        if (!settings->picture.empty())
            report::write_text(settings->picture, report::timeline_picture(spans, settings->from, until),
                               "picture");
        status = all_passed;
    });
}

} // namespace truestep::tool
