// Draws charts of loss over steps, and over bytes.
#include <truestep/training/drawing.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <truestep/report/chart.hpp>
#include <truestep/report/frame.hpp>

namespace truestep::training {

namespace {

using namespace report::page;

// In units of the drawing.
constexpr double width = 460;
constexpr Chart::Box plot_box{
    .left = 40, .top = 18, .width = 328, .height = 240}; ///< beside it: names of floors
constexpr double under_plot = 30;
constexpr double key_row = 15;
constexpr const char* loss_style = R"css(
.over { paint-order: stroke; stroke: #ffffff; stroke-width: 3.5px; stroke-linejoin: round; }
.t-seed { fill: none; stroke-width: .8; stroke-opacity: .5; } .t-median { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.t-floor { fill: none; stroke: #6b7585; stroke-width: 1; stroke-dasharray: 4 3; }
.t-entropy { fill: none; stroke: #1a2230; stroke-width: 1.4; stroke-dasharray: 1 3; stroke-linecap: round; }
@media (prefers-color-scheme: dark) { .t-floor { stroke: #8793a3; } .over { stroke: #181e26; } .t-entropy { stroke: #e3e8ef; } }
)css";

/// Names of curves in the plot and its key: "A", ..., "Z", "27", ...
std::string letter(std::size_t i) {
    return i < 26 ? std::string(1, static_cast<char>('A' + i)) : std::to_string(i + 1);
}

/// "1.5 GB".
std::string bytes_text(double bytes) {
    constexpr std::array<const char*, 6> units{"B", "kB", "MB", "GB", "TB", "PB"};
    std::size_t unit = 0;
    for (; bytes >= 999.5 && unit + 1 < units.size(); ++unit)
        bytes /= 1000.0;
    return px(bytes) + " " + units[unit];
}

/// The data of one optimizer.
struct Group {
    std::string name;
    std::vector<std::vector<Curve::Point>> seeds;
    std::vector<Curve::Point> median;
};

std::vector<Group> groups_of(const std::vector<Curve>& curves) {
    std::vector<Group> all;
    for (const std::vector<Curve>& runs : by_optimizer(curves)) {
        Group group{.name = runs.front().optimizer, .seeds = {}, .median = median_of(runs)};
        for (const Curve& run : runs)
            group.seeds.push_back(run.points);
        all.push_back(std::move(group));
    }
    return all;
}

struct Across {
    std::string label; ///< of the drawing
    std::string name;  ///< of the axis
    bool logarithmic;
    double (*of)(const Curve::Point&);
    std::string (*tick)(double);
    std::string nowhere; ///< the key's text for a run that has no place on it
};

class LossChart {
  public:
    LossChart(const std::vector<Curve>& curves, Levels levels, Across across)
        : groups_(groups_of(curves)), levels_(std::move(levels)), across_(std::move(across)),
          chart_(over_axes()) {}

    [[nodiscard]] std::string drawn() const {
        std::string lines;
        std::string keys;
        for (std::size_t i = 0; i < groups_.size(); ++i) {
            for (const std::vector<Curve::Point>& seed : groups_[i].seeds)
                lines += chart_.curve("t-seed", line_look(i), spots(seed));
            lines += chart_.curve("t-median", line_look(i), spots(groups_[i].median));
            keys += key(i);
        }
        // The chart's own edges cut off what lies above.
        const std::string edges = px(plot_box.left) + " " + px(plot_box.top) + " " + px(plot_box.width) +
                                  " " + px(plot_box.height);
        const Attributes place{{"x", px(plot_box.left)},
                               {"y", px(plot_box.top)},
                               {"width", px(plot_box.width)},
                               {"height", px(plot_box.height)},
                               {"viewBox", edges}};
        return drawing_alone(
            width, plot_box.bottom() + under_plot + (key_row * static_cast<double>(groups_.size())) + 4,
            across_.label, chart_.axes() + element("svg", lines, place) + all_levels() + letters() + keys,
            loss_style);
    }

  private:
    [[nodiscard]] Chart::Spot spot(const Curve::Point& point) const {
        return {across_.of(point), point.loss};
    }
    [[nodiscard]] std::vector<Chart::Spot> spots(const std::vector<Curve::Point>& points) const {
        std::vector<Chart::Spot> all;
        all.reserve(points.size());
        for (const Curve::Point& point : points)
            all.push_back(spot(point));
        return all;
    }
    [[nodiscard]] bool has_place(const Curve::Point& point) const { return chart_.has_place(spot(point)); }

    [[nodiscard]] Chart over_axes() const {
        Axis x{.name = across_.name, .logarithmic = across_.logarithmic, .text = across_.tick};
        Axis y{.name = "nats"};
        Axis ends;
        for (const Group& group : groups_)
            for (const std::vector<Curve::Point>& seed : group.seeds)
                for (const Curve::Point& point : seed) {
                    if (!x.has_place(across_.of(point)) || !y.has_place(point.loss))
                        continue;
                    x.include(across_.of(point));
                    y.include(point.loss);
                    if (&point == &seed.back())
                        ends.include(point.loss);
                }
        for (const Floor& floor : levels_.floors)
            y.least = std::min(y.least, floor.loss);
        if (levels_.entropy)
            y.least = std::min(y.least, *levels_.entropy);
        // The start is high and not informative: the axis begins at the unigram, or where the worst
        // run ends.
        y.greatest =
            std::max(levels_.floors.empty() ? y.greatest : levels_.floors.front().loss, ends.greatest);
        if (y.least > y.greatest)
            y = {.name = "nats", .least = 0.0, .greatest = 1.0};
        const double margin = std::max(0.03 * (y.greatest - y.least), 1e-6);
        y.least -= margin;
        y.greatest += margin;
        y.text = [digits = y.greatest - y.least < 0.5 ? 2 : 1](double loss) { return fixed(loss, digits); };
        x.divide();
        y.divide();
        return {plot_box, x, y};
    }

    [[nodiscard]] std::string all_levels() const {
        std::vector<std::string> names;
        std::vector<double> losses;
        for (const Floor& floor : levels_.floors) {
            names.push_back(name(floor));
            losses.push_back(floor.loss);
        }
        if (levels_.entropy) {
            names.emplace_back("entropy");
            losses.push_back(*levels_.entropy);
        }
        std::vector<double> places;
        places.reserve(losses.size());
        for (const double loss : losses)
            places.push_back(chart_.y(loss) + 3.5);
        const std::vector<double> labels = apart(places, 10.5, plot_box.top + 7, plot_box.bottom() + 4);
        std::string svg;
        for (std::size_t i = 0; i < names.size(); ++i) {
            svg +=
                path(i < levels_.floors.size() ? "t-floor" : "t-entropy",
                     "M" + px(plot_box.left) + " " + px(chart_.y(losses[i])) + "H" + px(plot_box.right()) +
                         "L" + px(plot_box.right() + 7) + " " + px(labels[i] - 3.5)) +
                label("tick", plot_box.right() + 9, labels[i], "start",
                      names[i] + " " + fixed(losses[i], 3));
        }
        return svg;
    }

    /// Places each letter at the end of its median, a little above the line.
    [[nodiscard]] std::string letters() const {
        std::vector<std::size_t> shown;
        std::vector<double> places;
        for (std::size_t i = 0; i < groups_.size(); ++i)
            if (has_place(groups_[i].median.back())) {
                shown.push_back(i);
                places.push_back(std::max(chart_.y(groups_[i].median.back().loss) - 4, plot_box.top + 9));
            }
        const std::vector<double> at = apart(places, 11, plot_box.top + 9, plot_box.bottom());
        std::string svg;
        for (std::size_t i = 0; i < shown.size(); ++i)
            svg += label("letter over", chart_.x(across_.of(groups_[shown[i]].median.back())) - 3, at[i],
                         "end", letter(shown[i]));
        return svg;
    }

    [[nodiscard]] std::string key(std::size_t i) const {
        constexpr std::size_t longest = 62;
        const Group& group = groups_[i];
        const double at = plot_box.bottom() + under_plot + (key_row * static_cast<double>(i)) + 11;
        const bool any =
            std::ranges::any_of(group.median, [this](const auto& point) { return has_place(point); });
        const std::string more =
            any ? (group.seeds.size() == 1 ? "" : " (" + std::to_string(group.seeds.size()) + " seeds)")
                : across_.nowhere;
        return element(
            "g.t-key",
            element("title", escaped(group.name)) +
                path("t-median " + line_look(i), "M" + px(plot_box.left) + " " + px(at - 4) + "h26") +
                label("letter", plot_box.left + 32, at, "start", letter(i)) +
                label("name", plot_box.left + 48, at, "start", clipped(group.name, longest) + more));
    }

    std::vector<Group> groups_;
    Levels levels_;
    Across across_;
    Chart chart_;
};

} // namespace

std::string loss_over_steps(const std::vector<Curve>& curves, const Levels& levels) {
    return LossChart(curves, levels,
                     {.label = "Loss over steps",
                      .name = "steps",
                      .logarithmic = false,
                      .of = [](const Curve::Point& point) { return static_cast<double>(point.step); },
                      .tick = [](double steps) { return px(steps); },
                      .nowhere = ": no finite loss"})
        .drawn();
}

std::string loss_over_bytes(const std::vector<Curve>& curves, const Levels& levels) {
    return LossChart(curves, levels,
                     {.label = "Loss over bytes sent",
                      .name = "bytes sent by all ranks",
                      .logarithmic = true,
                      .of = [](const Curve::Point& point) { return static_cast<double>(point.bytes); },
                      .tick = bytes_text,
                      .nowhere = ": sends nothing, or has no finite loss"})
        .drawn();
}

} // namespace truestep::training
