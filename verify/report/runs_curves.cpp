// Curves of a recorded run over its steps. What was not recorded is a gap, never a zero.
#include "runs_parts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include <truestep/problem/statistics.hpp>

namespace truestep::report::page {

namespace {

// In the drawing's own units.
constexpr double chart_width = 360;
constexpr double chart_height = 180;
constexpr double left_edge = 50;
constexpr double right_edge = 8;
constexpr double top_edge = 12;
constexpr double bottom_edge = 26;

constexpr std::size_t most_points = 120; ///< more steps share one
constexpr std::size_t most_lines = 8;    ///< more ranks are told by their least, middle and greatest

/// One step, or neighbours that share a place.
struct Point {
    std::size_t first = 1; ///< steps
    std::size_t last = 1;
    std::optional<double> value; ///< the mean of those recorded; none: none was
    double least = 0.0;
    double greatest = 0.0;
    std::string odd; ///< "nan", "inf": what cannot be drawn
};

struct DrawnLine {
    std::string name;
    std::vector<Point> points;
};

/// Three digits are enough for the eye.
std::string three_digits(double value) {
    std::array<char, 32> buffer{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 3)
            .ptr;
    return {buffer.data(), end};
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

/// Of so many ranks that their lines would hide each other.
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

/// 1, 2 or 5 times a power of ten.
double above(double value) {
    if (!(value > 0.0))
        return 1.0;
    const double power = std::pow(10.0, std::floor(std::log10(value)));
    for (const double part : {1.0, 2.0, 5.0})
        if (part * power >= value)
            return part * power;
    return 10.0 * power;
}

class Chart {
  public:
    Chart(std::vector<DrawnLine> lines, std::string name, std::string step)
        : lines_(std::move(lines)), name_(std::move(name)), step_(std::move(step)) {
        for (const DrawnLine& line : lines_)
            for (const Point& point : line.points) {
                steps_ = std::max(steps_, point.last);
                if (point.value)
                    greatest_ = std::max(greatest_, point.greatest);
            }
        top_ = above(greatest_);
    }

    [[nodiscard]] std::string svg() const {
        std::string html = svg_begin(chart_width, chart_height, name_ + " over the " + step_ + "s");
        for (const double share : {0.0, 0.5, 1.0}) {
            const double at = y(share * top_);
            html += "<path class=\"rule\" d=\"M" + px(left_edge) + " " + px(at) + "H" +
                    px(chart_width - right_edge) + "\"/><text class=\"tick\" text-anchor=\"end\" x=\"" +
                    px(left_edge - 5) + "\" y=\"" + px(at + 3.5) + "\">" + three_digits(share * top_) +
                    "</text>";
        }
        html += step_label(1, "start");
        if (steps_ > 1)
            html += step_label(steps_, "end");
        for (std::size_t i = 0; i < lines_.size(); ++i)
            html += line(lines_[i], "line" + std::to_string(i));
        return html + "</svg>";
    }

  private:
    [[nodiscard]] double x(const Point& point) const {
        const double middle = (static_cast<double>(point.first + point.last) / 2.0) - 1.0;
        const double whole = std::max(1.0, static_cast<double>(steps_) - 1.0);
        return left_edge + (middle / whole * (chart_width - left_edge - right_edge));
    }
    [[nodiscard]] double y(double value) const {
        return top_edge + ((1.0 - value / top_) * (chart_height - top_edge - bottom_edge));
    }

    [[nodiscard]] std::string step_label(std::size_t step, const std::string& anchor) const {
        return "<text class=\"tick\" text-anchor=\"" + anchor + "\" x=\"" +
               px(x({.first = step, .last = step, .value = {}, .least = 0, .greatest = 0, .odd = {}})) +
               "\" y=\"" + px(chart_height - 9) + "\">" + escaped(step_) + " " + std::to_string(step) +
               "</text>";
    }

    /// Each run of points without a gap is a path; one that stands alone is a dot.
    [[nodiscard]] std::string line(const DrawnLine& of, const std::string& look) const {
        std::string path;
        std::string dots;
        std::string ranges;
        for (std::size_t i = 0; i < of.points.size(); ++i) {
            const Point& point = of.points[i];
            if (!point.value)
                continue;
            const bool before = i > 0 && of.points[i - 1].value;
            const bool after = i + 1 < of.points.size() && of.points[i + 1].value;
            const std::string place = px(x(point)) + " " + px(y(*point.value));
            if (before || after)
                path += (before ? "L" : "M") + place;
            else
                dots += "M" + place + "h0";
            if (point.greatest > point.least)
                ranges += "M" + px(x(point)) + " " + px(y(point.least)) + "V" + px(y(point.greatest));
        }
        const auto drawn_as = [&](const char* kind, const std::string& d) {
            return d.empty() ? std::string()
                             : std::string("<path class=\"") + kind + " " + look + "\" d=\"" + d + "\"/>";
        };
        return drawn_as("range", ranges) + drawn_as("curve", path) + drawn_as("dot", dots);
    }

    std::vector<DrawnLine> lines_;
    std::string name_;
    std::string step_; ///< what the system calls it
    std::size_t steps_ = 1;
    double greatest_ = 0.0;
    double top_ = 1.0;
};

/// What is not drawn, and why; "" where all is.
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
    return "<span><svg class=\"key-line\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"curve "
           "line" +
           std::to_string(i) + "\" d=\"M1 4H23\"/></svg> " + escaped(name) + "</span>";
}

std::string figure(const ordered_json& curve, const std::string& step) {
    const std::vector<DrawnLine> lines = drawn_lines(curve);
    if (lines.empty())
        return {};
    std::string html = "<figure class=\"chart\"><h5>" + escaped(curve, "name") + "</h5>";
    const std::string lack = not_drawn(lines);
    if (lack == "not recorded")
        html += "<p class=\"absent-chart\">not recorded</p>";
    else
        html += Chart(lines, text(curve, "name"), step).svg();
    html += "<figcaption>";
    if (lines.size() > 1)
        for (std::size_t i = 0; i < lines.size(); ++i)
            html += key_of(i, lines[i].name);
    html += "<span>" + escaped(curve, "says") + "</span>";
    if (!lack.empty() && lack != "not recorded")
        html += "<span>" + escaped(lack) + "</span>";
    return html + "</figcaption></figure>";
}

std::string number_cell(const Point& point) {
    return "<td>" +
           (point.value         ? three_digits(*point.value)
            : point.odd.empty() ? std::string("–")
                                : escaped(point.odd)) +
           "</td>";
}

std::string steps_text(const Point& point) {
    return std::to_string(point.first) +
           (point.first == point.last ? "" : " to " + std::to_string(point.last));
}

std::string numbers_of_curves(const ordered_json& all, const std::string& step) {
    std::vector<DrawnLine> lines;
    std::string heads;
    for (const ordered_json& curve : all)
        for (DrawnLine& line : drawn_lines(curve)) {
            heads += "<th scope=\"col\">" + escaped(curve, "name") + ", " + escaped(line.name) + "</th>";
            lines.push_back(std::move(line));
        }
    if (lines.empty())
        return {};
    std::string html =
        "<details><summary>The numbers of the curves</summary><div class=\"wide\" tabindex=\"0\" "
        "role=\"region\" aria-label=\"The numbers of the curves\"><table class=\"numbers\"><caption "
        "class=\"sr\">The numbers of the curves; –: not recorded</caption><thead><tr><th "
        "scope=\"col\">" +
        escaped(step) + "</th>" + heads + "</tr></thead><tbody>";
    for (std::size_t i = 0; i < lines.front().points.size(); ++i) {
        html += "<tr><th scope=\"row\">" + steps_text(lines.front().points[i]) + "</th>";
        for (const DrawnLine& line : lines)
            html += i < line.points.size() ? number_cell(line.points[i]) : "<td>–</td>";
        html += "</tr>";
    }
    return html + "</tbody></table></div></details>";
}

} // namespace

std::string px(double value) {
    std::string result = fixed(value, 1);
    return result.ends_with(".0") ? result.substr(0, result.size() - 2) : result;
}

std::string svg_begin(double width, double height, const std::string& label) {
    return "<svg role=\"img\" viewBox=\"0 0 " + px(width) + " " + px(height) + "\" aria-label=\"" +
           escaped(label) + "\">";
}

std::string curves(const ordered_json& run) {
    const ordered_json& all = list(run, "curves");
    const std::string step = word_for(run, "step");
    std::string html;
    for (const ordered_json& curve : all)
        html += figure(curve, step);
    return html.empty() ? html
                        : "<h4>What the run did</h4><div class=\"charts\">" + html + "</div>" +
                              numbers_of_curves(all, step);
}

} // namespace truestep::report::page
