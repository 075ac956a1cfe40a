// Reads timelines, adds their spans up, and draws them.
#include <truestep/report/timeline.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/report/chart.hpp>
#include <truestep/report/table.hpp>

#include "page_rows.hpp"
#include "shape.hpp"

namespace truestep::report {

namespace {

using namespace page;

constexpr double microseconds = 1e-3; ///< in milliseconds

constexpr double most = 1e17; ///< any number in a timeline is less

int rank_of(const ordered_json& object, const std::string& key) {
    return static_cast<int>(std::clamp(number(object, key), -1.0, 1e9));
}

TimelineSpan span_of(const ordered_json& event) {
    const ordered_json& args = at(event, "args");
    const bool waited = at(args, "waits for rank").is_number();
    const double begin = number(event, "ts") * microseconds;
    return {.name = text(event, "name"),
            .rank = rank_of(event, "pid"),
            .lane = static_cast<std::size_t>(std::max(0.0, number(event, "tid"))),
            .begin = begin,
            .end = begin + number(event, "dur") * microseconds,
            .bytes = number(args, "bytes"),
            .awaited = waited ? std::optional(rank_of(args, "waits for rank")) : std::nullopt};
}

/// The number of spans of its lane that are open when each begins.
std::vector<std::size_t> depths_of(const std::vector<TimelineSpan>& spans) {
    std::map<std::pair<int, std::size_t>, std::vector<double>> open;
    std::vector<std::size_t> depths;
    for (const TimelineSpan& span : spans) {
        std::vector<double>& ends = open[{span.rank, span.lane}];
        std::erase_if(ends, [&](double end) { return end <= span.begin; });
        depths.push_back(ends.size());
        ends.push_back(span.end);
    }
    return depths;
}

/// A thread's place in the picture.
struct Band {
    double top = 0;
    std::size_t depth = 0;
};

constexpr double row_height = 15;
constexpr double left = 52;
constexpr double width = 720;

std::string bar(const TimelineSpan& span, const Chart& chart, double y, std::size_t look) {
    const double begin = std::max(chart.x(span.begin), left);
    const double end = std::min(chart.x(span.end), width);
    std::string svg = path("span " + line_look(look),
                           "M" + px(begin) + " " + px(y) + "H" + px(std::max(end, begin + 0.5)));
    const std::string words =
        span.name + (span.awaited ? " \u2190 " + std::to_string(*span.awaited) : std::string());
    constexpr double letter = 5.6;
    if (end - begin > letter * static_cast<double>(words.size()))
        svg += label("within", begin + 3, y + 3.5, "start", words);
    return svg;
}

} // namespace

std::vector<TimelineSpan> read_timeline(const std::filesystem::path& file) {
    const Shape shape(file.string());
    std::error_code unknown;
    std::ifstream stream(file, std::ios::binary);
    if (!stream || std::filesystem::is_directory(file, unknown))
        throw shape.error("it cannot be read", "give a file that --timeline has written");
    const std::string content{std::istreambuf_iterator<char>(stream), {}};
    const ordered_json events = ordered_json::parse(content, nullptr, false);
    if (!events.is_array())
        throw shape.error("it is not a list of events", "give a file that --timeline has written");
    std::vector<TimelineSpan> spans;
    for (const ordered_json& event : events)
        if (text(event, "ph") == "X") {
            shape.keys(event, "a span",
                       {{"name", ContentType::text},
                        {"pid", ContentType::count},
                        {"tid", ContentType::count},
                        {"ts", ContentType::number},
                        {"dur", ContentType::number}});
            for (const char* key : {"pid", "tid", "ts", "dur"})
                if (!(std::abs(number(event, key)) < most))
                    throw shape.malformed(std::string("a span's '") + key + "' is too large");
            spans.push_back(span_of(event));
        }
    if (spans.empty())
        throw shape.error("it has no span", "record steps of an optimizer");
    // Of two that begin together the longer one is the outer one.
    std::ranges::sort(spans, [](const TimelineSpan& a, const TimelineSpan& b) {
        return std::tuple(a.begin, -a.end, a.rank, a.lane) < std::tuple(b.begin, -b.end, b.rank, b.lane);
    });
    const double start = spans.front().begin;
    for (TimelineSpan& span : spans) {
        span.begin -= start;
        span.end -= start;
    }
    return spans;
}

std::string timeline_table(const std::vector<TimelineSpan>& spans) {
    struct Sum {
        std::size_t times = 0;
        double time = 0;
        double bytes = 0;
        std::map<int, double> awaited{};
    };
    std::map<int, std::map<std::string, Sum>> ranks;
    double end = 0;
    for (const TimelineSpan& span : spans) {
        Sum& sum = ranks[span.rank][span.name];
        ++sum.times;
        sum.time += span.end - span.begin;
        sum.bytes += span.bytes;
        end = std::max(end, span.end);
        if (span.awaited)
            sum.awaited[*span.awaited] += span.end - span.begin;
    }
    Table table({{"rank", true},
                 {"span"},
                 {"times", true},
                 {"ms", true},
                 {"% of time", true},
                 {"bytes", true},
                 {"waited longest for"}});
    for (const auto& [rank, sums] : ranks) {
        std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
        std::ranges::stable_sort(sorted, std::greater(), [](const auto& one) { return one.second.time; });
        for (const auto& [name, sum] : sorted) {
            const auto longest =
                std::ranges::max_element(sum.awaited, {}, [](const auto& one) { return one.second; });
            table.add({std::to_string(rank), name, std::to_string(sum.times), fixed(sum.time, 3),
                       percent(end > 0 ? sum.time / end : 0), sum.bytes > 0 ? fixed(sum.bytes, 0) : "",
                       longest == sum.awaited.end() ? ""
                                                    : "rank " + std::to_string(longest->first) + ", " +
                                                          fixed(longest->second, 3) + " ms"});
        }
    }
    return table.text();
}

std::string timeline_picture(const std::vector<TimelineSpan>& spans, double from, double until) {
    const std::vector<std::size_t> depths = depths_of(spans);
    const auto shown = [&](const TimelineSpan& span) { return span.end > from && span.begin < until; };
    std::map<std::pair<int, std::size_t>, Band> bands;
    std::map<std::string, std::size_t> looks;
    for (std::size_t i = 0; i < spans.size(); ++i)
        if (shown(spans[i])) {
            Band& band = bands[{spans[i].rank, spans[i].lane}];
            band.depth = std::max(band.depth, depths[i] + 1);
            looks.emplace(spans[i].name, looks.size());
        }
    double bottom = 8;
    std::string svg;
    int named = -1;
    for (auto& [place, band] : bands) {
        band.top = bottom;
        bottom += static_cast<double>(band.depth) * row_height + 8;
        if (std::exchange(named, place.first) != place.first)
            svg += label("name", 8, band.top + 11, "start", "rank " + std::to_string(place.first));
    }
    Axis time{.name = "milliseconds", .text = [](double value) { return rounded(value, 6); }};
    time.include(from);
    time.include(until);
    time.divide();
    Axis none;
    none.include(0);
    none.include(1);
    const Chart chart({.left = left, .top = 0, .width = width - left, .height = bottom}, time, none);
    svg += chart.axes(true);
    for (std::size_t i = 0; i < spans.size(); ++i)
        if (shown(spans[i])) {
            const Band& band = bands.at({spans[i].rank, spans[i].lane});
            const double y = band.top + (static_cast<double>(depths[i]) + 0.5) * row_height;
            svg += bar(spans[i], chart, y, looks.at(spans[i].name));
        }
    return drawing_alone(width + 8, bottom + 34, "What each rank does and waits for, over time", svg,
                         ".span { stroke-width: 13px; stroke-dasharray: none; }\n"
                         ".within { fill: #ffffff; font-size: 10px; }\n") +
           "\n";
}

} // namespace truestep::report
