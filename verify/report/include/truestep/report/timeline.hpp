#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// Timelines that `--timeline` has written, as a table and as a picture.

namespace truestep::report {

struct TimelineSpan {
    std::string name;
    int rank;
    std::size_t lane; ///< a thread's number
    double begin;     ///< milliseconds since the file's first span
    double end;
    double bytes;
    std::optional<int> awaited; ///< the rank for which it waited
};

/// In the order in which they begin. Throws truestep::Error, one line, for a file that is no timeline.
[[nodiscard]] std::vector<TimelineSpan> read_timeline(const std::filesystem::path& file);

/// What each rank did how often and how long, and for whom it waited longest.
[[nodiscard]] std::string timeline_table(const std::vector<TimelineSpan>& spans);

/// The spans between two times in milliseconds as a standalone SVG: a band for each thread, inner spans
/// below outer ones.
[[nodiscard]] std::string timeline_picture(const std::vector<TimelineSpan>& spans, double from,
                                           double until);

} // namespace truestep::report
