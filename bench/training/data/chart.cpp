// Loss over steps, and over bytes.
#include <truestep/training/drawing.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <truestep/report/frame.hpp>

#include "svg.hpp"

namespace truestep::training {

namespace {

using report::page::escaped;
using report::page::fixed;
using report::page::px;

// In the drawing's own units.
constexpr double width = 460;
constexpr double plot_height = 240;
constexpr double left = 40;
constexpr double right = 92; ///< names of floors
constexpr double top = 12;
constexpr double bottom = 30;
constexpr double key_row = 15;
constexpr std::size_t looks = 8;

/// "A", ..., "Z", "27", ...: of curves in the plot and its key.
std::string letter(std::size_t i) {
    return i < 26 ? std::string(1, static_cast<char>('A' + i)) : std::to_string(i + 1);
}

/// 1, 2 or 5 times a power of ten, so that about `parts` of it make the whole.
double nice(double whole, double parts) {
    const double power = std::pow(10.0, std::floor(std::log10(whole / parts)));
    for (const double times : {1.0, 2.0, 5.0})
        if (times * power * parts >= whole)
            return times * power;
    return 10.0 * power;
}

/// "1.5 GB".
std::string bytes_text(double bytes) {
    constexpr std::array<const char*, 6> units{"B", "kB", "MB", "GB", "TB", "PB"};
    std::size_t unit = 0;
    for (; bytes >= 999.5 && unit + 1 < units.size(); ++unit)
        bytes /= 1000.0;
    return px(bytes) + " " + units[unit];
}

struct Axis {
    double least = 0;
    double greatest = 1;
    bool logarithmic = false;
    /// From 0 to 1.
    [[nodiscard]] double share(double value) const {
        const auto scaled = [&](double x) { return logarithmic ? std::log10(x) : x; };
        const double whole = scaled(greatest) - scaled(least);
        return whole > 0.0 ? (scaled(value) - scaled(least)) / whole : 0.5;
    }
    [[nodiscard]] std::vector<double> ticks(double parts) const;
};

std::vector<double> Axis::ticks(double parts) const {
    std::vector<double> all;
    if (logarithmic) {
        const bool few = greatest / least < 1000.0;
        for (double power = std::pow(10.0, std::floor(std::log10(least))); power <= greatest; power *= 10.0)
            for (const double times : {1.0, 2.0, 5.0})
                if ((few || times == 1.0) && times * power >= least && times * power <= greatest)
                    all.push_back(times * power);
        return all;
    }
    const double step = nice(std::max(greatest - least, 1e-9), parts);
    for (double tick = std::ceil(least / step) * step; tick <= greatest * (1.0 + 1e-12); tick += step)
        all.push_back(tick);
    return all;
}

/// All that is drawn of one optimizer.
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
    std::string nowhere; ///< what the key says of a run with no place on it
};

class Chart {
  public:
    Chart(const std::vector<Curve>& curves, Levels levels, Across across)
        : groups_(groups_of(curves)), levels_(std::move(levels)), across_(std::move(across)) {
        ranges();
    }

    [[nodiscard]] std::string drawn() const {
        const double height =
            top + plot_height + bottom + (key_row * static_cast<double>(groups_.size())) + 4;
        std::string svg = svg::begin(width, height, across_.label);
        svg += axes();
        // Within its own edges: what lies above is cut off.
        svg += "<svg x=\"" + px(left) + "\" y=\"" + px(top) + "\" width=\"" + px(plot_width()) +
               "\" height=\"" + px(plot_height) + "\" viewBox=\"" + px(left) + " " + px(top) + " " +
               px(plot_width()) + " " + px(plot_height) + "\">";
        for (std::size_t i = 0; i < groups_.size(); ++i)
            svg += lines(i);
        svg += "</svg>" + all_levels() + letters();
        for (std::size_t i = 0; i < groups_.size(); ++i)
            svg += key(i);
        return svg + "</svg>";
    }

  private:
    static double plot_width() { return width - left - right; }
    [[nodiscard]] double x(double value) const { return left + (x_.share(value) * plot_width()); }
    [[nodiscard]] double y(double value) const { return top + ((1.0 - y_.share(value)) * plot_height); }

    [[nodiscard]] bool has_place(const Curve::Point& point) const {
        return std::isfinite(point.loss) && (!across_.logarithmic || across_.of(point) > 0.0);
    }

    void ranges() {
        constexpr double most = std::numeric_limits<double>::max();
        x_ = {.least = most, .greatest = -most, .logarithmic = across_.logarithmic};
        y_ = {.least = most, .greatest = -most, .logarithmic = false};
        double highest_end = -most;
        for (const Group& group : groups_)
            for (const std::vector<Curve::Point>& seed : group.seeds) {
                for (const Curve::Point& point : seed) {
                    if (!has_place(point))
                        continue;
                    x_.least = std::min(x_.least, across_.of(point));
                    x_.greatest = std::max(x_.greatest, across_.of(point));
                    y_.least = std::min(y_.least, point.loss);
                    y_.greatest = std::max(y_.greatest, point.loss);
                }
                if (has_place(seed.back()))
                    highest_end = std::max(highest_end, seed.back().loss);
            }
        if (x_.least > x_.greatest)
            x_ = {.least = across_.logarithmic ? 1.0 : 0.0,
                  .greatest = 1.0,
                  .logarithmic = across_.logarithmic};
        for (const Floor& floor : levels_.floors)
            y_.least = std::min(y_.least, floor.loss);
        if (levels_.entropy)
            y_.least = std::min(y_.least, *levels_.entropy);
        // The start is high and says little: what is drawn begins at the unigram, or where the worst run
        // ends.
        const double start = levels_.floors.empty() ? y_.greatest : levels_.floors.front().loss;
        y_.greatest = std::max(start, highest_end);
        if (y_.least > y_.greatest)
            y_ = {.least = 0.0, .greatest = 1.0, .logarithmic = false};
        const double margin = std::max(0.03 * (y_.greatest - y_.least), 1e-6);
        y_.least -= margin;
        y_.greatest += margin;
    }

    [[nodiscard]] std::string axes() const {
        std::string svg;
        for (const double tick : y_.ticks(5))
            svg += "<path class=\"t-rule\" d=\"M" + px(left) + " " + px(y(tick)) + "H" + px(width - right) +
                   "\"/>" +
                   svg::label("t-tick", left - 5, y(tick) + 3.5, "end",
                              fixed(tick, y_.greatest - y_.least < 0.5 ? 2 : 1));
        for (const double tick : x_.ticks(5))
            svg += "<path class=\"t-rule\" d=\"M" + px(x(tick)) + " " + px(top + plot_height) + "v4\"/>" +
                   svg::label("t-tick", x(tick), top + plot_height + 14, "middle", across_.tick(tick));
        return svg +
               svg::label("t-tick", left + (plot_width() / 2), top + plot_height + 26, "middle",
                          across_.name) +
               svg::label("t-tick", left - 5, top - 3, "end", "nats");
    }

    [[nodiscard]] std::string path(const std::string& look, const std::vector<Curve::Point>& points) const {
        std::string d;
        bool before = false;
        for (const Curve::Point& point : points) {
            const bool here = has_place(point);
            if (here)
                d += (before ? "L" : "M") + px(x(across_.of(point))) + " " + px(y(point.loss));
            before = here;
        }
        return d.empty() ? d : "<path class=\"" + look + "\" d=\"" + d + "\"/>";
    }

    [[nodiscard]] std::string lines(std::size_t i) const {
        const std::string look = "t-" + std::to_string(i % looks);
        std::string svg;
        for (const std::vector<Curve::Point>& seed : groups_[i].seeds)
            svg += path("t-seed " + look, seed);
        return svg + path("t-median " + look, groups_[i].median);
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
            places.push_back(y(loss) + 3.5);
        const std::vector<double> labels = svg::apart(places, 10.5, top + 7, top + plot_height + 4);
        std::string svg;
        for (std::size_t i = 0; i < names.size(); ++i) {
            const std::string look = i < levels_.floors.size() ? "t-floor" : "t-entropy";
            svg += "<path class=\"" + look + "\" d=\"M" + px(left) + " " + px(y(losses[i])) + "H" +
                   px(width - right) + "L" + px(width - right + 7) + " " + px(labels[i] - 3.5) + "\"/>" +
                   svg::label("t-tick", width - right + 9, labels[i], "start",
                              names[i] + " " + fixed(losses[i], 3));
        }
        return svg;
    }

    /// Each at the end of its median, a little above the line.
    [[nodiscard]] std::string letters() const {
        std::vector<std::size_t> shown;
        std::vector<double> places;
        for (std::size_t i = 0; i < groups_.size(); ++i)
            if (has_place(groups_[i].median.back())) {
                shown.push_back(i);
                places.push_back(std::max(y(groups_[i].median.back().loss) - 4, top + 9));
            }
        const std::vector<double> at = svg::apart(places, 11, top + 9, top + plot_height);
        std::string svg;
        for (std::size_t i = 0; i < shown.size(); ++i)
            svg += svg::label("t-letter t-over", x(across_.of(groups_[shown[i]].median.back())) - 3, at[i],
                              "end", letter(shown[i]));
        return svg;
    }

    [[nodiscard]] std::string key(std::size_t i) const {
        constexpr std::size_t longest = 62;
        const Group& group = groups_[i];
        const double at = top + plot_height + bottom + (key_row * static_cast<double>(i)) + 11;
        const bool any =
            std::ranges::any_of(group.median, [&](const auto& point) { return has_place(point); });
        const std::string more =
            any ? (group.seeds.size() == 1 ? "" : " (" + std::to_string(group.seeds.size()) + " seeds)")
                : across_.nowhere;
        return "<g class=\"t-key\"><title>" + escaped(group.name) + "</title><path class=\"t-median t-" +
               std::to_string(i % looks) + "\" d=\"M" + px(left) + " " + px(at - 4) + "h26\"/>" +
               svg::label("t-letter", left + 32, at, "start", letter(i)) +
               svg::label("t-name", left + 48, at, "start", svg::clipped(group.name, longest) + more) +
               "</g>";
    }

    std::vector<Group> groups_;
    Levels levels_;
    Across across_;
    Axis x_;
    Axis y_;
};

} // namespace

std::string loss_over_steps(const std::vector<Curve>& curves, const Levels& levels) {
    return Chart(curves, levels,
                 {.label = "Loss over steps",
                  .name = "steps",
                  .logarithmic = false,
                  .of = [](const Curve::Point& point) { return static_cast<double>(point.step); },
                  .tick = [](double steps) { return px(steps); },
                  .nowhere = ": no finite loss"})
        .drawn();
}

std::string loss_over_bytes(const std::vector<Curve>& curves, const Levels& levels) {
    return Chart(curves, levels,
                 {.label = "Loss over bytes sent",
                  .name = "bytes sent by all ranks",
                  .logarithmic = true,
                  .of = [](const Curve::Point& point) { return static_cast<double>(point.bytes); },
                  .tick = bytes_text,
                  .nowhere = ": sends nothing, or has no finite loss"})
        .drawn();
}

} // namespace truestep::training
