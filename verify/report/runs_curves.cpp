// Draws curves of a recorded run over its steps. Missing values are gaps, never zeros.
#include "run_sections.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <truestep/problem/statistics.hpp>
#include <truestep/report/chart.hpp>

namespace truestep::report::page {

namespace {

constexpr double chart_width = 360;
constexpr double chart_height = 180;

constexpr std::size_t most_points = 120; ///< more steps share one
constexpr std::size_t most_lines = 8;    ///< more ranks are shown by their least, middle and greatest

/// One step, or neighbours that share a place.
struct Point {
    std::size_t first = 1; ///< steps
    std::size_t last = 1;
    std::optional<double> value; ///< the mean of the recorded ones; none: none was recorded
    double least = 0.0;
    double greatest = 0.0;
    std::string odd; ///< "nan", "inf": cannot be drawn
};

struct DrawnLine {
    std::string name;
    std::vector<Point> points;
};

/// Three digits suffice for the eye.
std::string three_digits(double value) {
    return rounded(value, 3);
}

Point point_of(const ordered_json& values, std::size_t first, std::size_t last) {
    Point point{.first = first + 1, .last = last, .value = {}, .least = 0, .greatest = 0, .odd = {}};
    double sum = 0.0;
    std::size_t count = 0;
    for (std::size_t i = first; i < last; ++i) {
        if (values[i].is_string())
            point.odd = values[i].get<std::string>();
        if (!values[i].is_number())
            continue;
        const double value = values[i].get<double>();
        point.least = count == 0 ? value : std::min(point.least, value);
        point.greatest = count == 0 ? value : std::max(point.greatest, value);
        sum += value;
        ++count;
    }
    if (count > 0)
        point.value = sum / static_cast<double>(count);
    return point;
}

DrawnLine drawn(const std::string& name, const ordered_json& values) {
    DrawnLine line{name, {}};
    const std::size_t points = std::min(values.size(), most_points);
    for (std::size_t i = 0; i < points; ++i)
        line.points.push_back(
            point_of(values, i * values.size() / points, (i + 1) * values.size() / points));
    return line;
}

/// The least, middle and greatest values, for so many ranks that their lines would hide each other.
std::vector<DrawnLine> least_middle_greatest(const ordered_json& lines) {
    std::array<ordered_json, 3> told;
    for (std::size_t i = 0; i < list(lines.front(), "values").size(); ++i) {
        std::vector<double> values;
        for (const ordered_json& line : lines)
            if (i < list(line, "values").size() && list(line, "values")[i].is_number())
                values.push_back(list(line, "values")[i].get<double>());
        const bool any = !values.empty();
        told[0].push_back(any ? ordered_json(std::ranges::min(values)) : ordered_json());
        told[1].push_back(any ? ordered_json(median(values)) : ordered_json());
        told[2].push_back(any ? ordered_json(std::ranges::max(values)) : ordered_json());
    }
    const std::string of = " of " + std::to_string(lines.size());
    return {drawn("least" + of, told[0]), drawn("middle", told[1]), drawn("greatest", told[2])};
}

std::vector<DrawnLine> drawn_lines(const ordered_json& curve) {
    const ordered_json& lines = list(curve, "lines");
    if (lines.size() > most_lines)
        return least_middle_greatest(lines);
    std::vector<DrawnLine> all;
    for (const ordered_json& line : lines)
        all.push_back(drawn(text(line, "name"), list(line, "values")));
    return all;
}

std::string drawn_chart(const std::vector<DrawnLine>& lines, const std::string& name,
                        const std::string& step) {
    double steps = 1.0;
    double greatest = 0.0;
    for (const DrawnLine& line : lines)
        for (const Point& point : line.points) {
            steps = std::max(steps, static_cast<double>(point.last));
            if (point.value)
                greatest = std::max(greatest, point.greatest);
        }
    const double top = round_part(greatest, 1);
    const Chart chart(
        {50, 12, 302, 142}, {.least = 1.0, .greatest = std::max(2.0, steps)},
        {.text = three_digits, .least = 0.0, .greatest = top, .ticks = {0.0, top / 2.0, top}});
    const auto step_label = [&](double at, const std::string& anchor) {
        return label("tick", chart.x(at), chart_height - 9, anchor, step + " " + px(at));
    };
    std::string svg =
        chart.axes() + step_label(1.0, "start") + (steps > 1.0 ? step_label(steps, "end") : "");
    for (std::size_t i = 0; i < lines.size(); ++i) {
        std::vector<Chart::Spot> spots;
        std::string ranges;
        for (const Point& point : lines[i].points) {
            const double middle = static_cast<double>(point.first + point.last) / 2.0;
            spots.push_back({middle, point.value.value_or(std::nan(""))});
            if (point.value && point.greatest > point.least)
                ranges += "M" + px(chart.x(middle)) + " " + px(chart.y(point.least)) + "V" +
                          px(chart.y(point.greatest));
        }
        svg += path("range " + line_look(i), ranges) + chart.curve("curve", line_look(i), spots);
    }
    return drawing_in_page(chart_width, chart_height, name + " over the " + step + "s", svg);
}

/// The values that are not drawn, and why; "" if all are drawn.
std::string not_drawn(const std::vector<DrawnLine>& lines) {
    std::size_t missing = 0;
    std::size_t odd = 0;
    std::size_t all = 0;
    for (const DrawnLine& line : lines)
        for (const Point& point : line.points) {
            ++all;
            missing += !point.value && point.odd.empty() ? 1U : 0U;
            odd += point.odd.empty() ? 0U : 1U;
        }
    const auto of_all = [&](std::size_t count) {
        return count_text(static_cast<double>(count)) + " of " + count_of(all, "point");
    };
    return joined({missing == 0     ? ""
                   : missing == all ? "not recorded"
                                    : "not recorded, or there is none, at " + of_all(missing),
                   odd == 0 ? "" : "no finite number at " + of_all(odd)},
                  "; ");
}

std::string key_of(std::size_t i, const std::string& name) {
    return element("span", "<svg class=\"key-line\" viewBox=\"0 0 24 8\" aria-hidden=\"true\">" +
                               path("curve " + line_look(i), "M1 4H23") + "</svg> " + escaped(name));
}

std::string figure(const ordered_json& curve, const std::string& step) {
    const std::vector<DrawnLine> lines = drawn_lines(curve);
    if (lines.empty())
        return {};
    const std::string lack = not_drawn(lines);
    const bool nothing = lack == "not recorded";
    std::string caption;
    if (lines.size() > 1)
        for (std::size_t i = 0; i < lines.size(); ++i)
            caption += key_of(i, lines[i].name);
    caption += element("span", escaped(curve, "says"));
    if (!lack.empty() && !nothing)
        caption += element("span", escaped(lack));
    return element("figure.chart", element("h5", escaped(curve, "name")) +
                                       (nothing ? element("p.absent-chart", lack)
                                                : drawn_chart(lines, text(curve, "name"), step)) +
                                       element("figcaption", caption));
}

std::string number_text(const Point& point) {
    return point.value         ? three_digits(*point.value)
           : point.odd.empty() ? std::string("–")
                               : escaped(point.odd);
}

std::string steps_text(const Point& point) {
    return std::to_string(point.first) +
           (point.first == point.last ? "" : " to " + std::to_string(point.last));
}

std::string numbers_of_curves(const ordered_json& all, const std::string& step) {
    std::vector<DrawnLine> lines;
    std::vector<HtmlTable::Column> columns{{escaped(step), "head"}};
    for (const ordered_json& curve : all)
        for (DrawnLine& line : drawn_lines(curve)) {
            columns.push_back({escaped(curve, "name") + ", " + escaped(line.name)});
            lines.push_back(std::move(line));
        }
    if (lines.empty())
        return {};
    HtmlTable table("numbers", "The numbers of the curves; –: not recorded", columns);
    for (std::size_t i = 0; i < lines.front().points.size(); ++i) {
        std::vector<std::string> cells{steps_text(lines.front().points[i])};
        for (const DrawnLine& line : lines)
            cells.emplace_back(i < line.points.size() ? number_text(line.points[i]) : "–");
        table.row(cells);
    }
    return folded("The numbers of the curves", wide("The numbers of the curves", table.html()));
}

} // namespace

std::string curves(const ordered_json& run) {
    const ordered_json& all = list(run, "curves");
    const std::string step = word_for(run, "step");
    std::string html;
    for (const ordered_json& curve : all)
        html += figure(curve, step);
    return html.empty() ? html
                        : element("h4", "What the run did") + element("div.charts", html) +
                              numbers_of_curves(all, step);
}

} // namespace truestep::report::page
