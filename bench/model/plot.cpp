#include "model/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace truestep::model {
namespace {

constexpr double width = 720;
constexpr double height = 420;
constexpr double left = 70;
constexpr double right = 190; // the names stand there
constexpr double top = 40;
constexpr double bottom = 50;
constexpr std::array<const char*, 9> colors{"#4477aa", "#ee6677", "#228833", "#aa8800", "#aa3377",
                                            "#2299bb", "#886644", "#777777", "#bb4411"};

struct Axis {
    double low = 0; ///< powers of ten
    double high = 1;
    double from = 0;
    double to = 1;
    std::vector<double> ticks{}; ///< where the grid is

    [[nodiscard]] double place(double value) const {
        return from + (std::log10(value) - low) / (high - low) * (to - from);
    }
};

template <class Values>
Axis axis_over(const std::vector<Curve>& curves, const Values& values, double from, double to) {
    double least = 1e300;
    double most = 1e-300;
    for (const Curve& curve : curves)
        for (const double value : values(curve)) {
            least = std::min(least, value);
            most = std::max(most, value);
        }
    // Whole powers of ten; where the values span little, 1, 2 and 5 of each.
    const bool narrow = most / least < 50;
    std::vector<double> grid;
    for (double power = std::floor(std::log10(least)); power <= std::ceil(std::log10(most)); ++power)
        for (const double part : {1.0, 2.0, 5.0})
            if (narrow || part == 1.0)
                grid.push_back(part * std::pow(10.0, power));
    const auto first = std::upper_bound(grid.begin(), grid.end(), least * (1 + 1e-9));
    const auto begin = first == grid.begin() ? first : first - 1;
    auto end = std::lower_bound(begin, grid.end(), most * (1 - 1e-9));
    if (end == begin || end == grid.end())
        end = std::min(begin + 1, grid.end() - 1);
    return {std::log10(*begin), std::log10(*end), from, to, {begin, end + 1}};
}

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

std::string short_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

std::string text_at(double x, double y, const std::string& text, const std::string& anchor,
                    const std::string& more = "") {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\"" + more +
           ">" + text + "</text>\n";
}

std::string line_at(double x1, double y1, double x2, double y2, const std::string& kind) {
    return "<line class=\"" + kind + "\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" +
           number(x2) + "\" y2=\"" + number(y2) + "\"/>\n";
}

} // namespace

std::string Plot::svg() const {
    const Axis x = axis_over(
        curves, [](const Curve& curve) -> auto& { return curve.x; }, left, width - right);
    const Axis y = axis_over(
        curves, [](const Curve& curve) -> auto& { return curve.y; }, height - bottom, top);
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " +
                      number(height) + "\" role=\"img\" aria-label=\"" + title +
                      "\">\n<style>\n"
                      "svg { color: #222; background: #fff; font: 12px sans-serif; }\n"
                      "@media (prefers-color-scheme: dark) { svg { color: #ddd; background: #1b1b1b; } }\n"
                      "text { fill: currentColor; }\n"
                      ".grid { stroke: currentColor; stroke-opacity: 0.15; }\n"
                      ".axis { stroke: currentColor; }\n"
                      "polyline { fill: none; stroke-width: 2; }\n"
                      "</style>\n";
    out += text_at(left, 22, title, "start", " font-weight=\"bold\"");
    for (const double tick : x.ticks) {
        const double at = x.place(tick);
        out += line_at(at, top, at, height - bottom, "grid");
        out += text_at(at, height - bottom + 16, short_number(tick), "middle");
    }
    for (const double tick : y.ticks) {
        const double at = y.place(tick);
        out += line_at(left, at, width - right, at, "grid");
        out += text_at(left - 6, at + 4, short_number(tick), "end");
    }
    out += line_at(left, height - bottom, width - right, height - bottom, "axis");
    out += line_at(left, top, left, height - bottom, "axis");
    out += text_at((left + width - right) / 2, height - 12, x_label, "middle");
    out += text_at(16, (top + height - bottom) / 2, y_label, "middle",
                   " transform=\"rotate(-90 16 " + number((top + height - bottom) / 2) + ")\"");

    // Names beside where the curves end, pushed apart where they would meet.
    struct Name {
        double y;
        std::string text;
        std::string color;
    };
    std::vector<Name> names;
    for (const Curve& curve : curves) {
        const std::string color = colors[(names.size() - (curve.name.empty() ? 1 : 0)) % colors.size()];
        std::string places;
        for (std::size_t j = 0; j < curve.x.size(); ++j) {
            const double px = x.place(curve.x[j]);
            const double py = y.place(curve.y[j]);
            if (curve.points)
                out += "<circle cx=\"" + number(px) + "\" cy=\"" + number(py) + "\" r=\"4\" fill=\"" +
                       color + "\"/>\n";
            places += number(px) + "," + number(py) + " ";
        }
        if (!curve.points)
            out += "<polyline stroke=\"" + color + "\" points=\"" + places + "\"/>\n";
        if (!curve.name.empty())
            names.push_back({y.place(curve.y.back()), curve.name, color});
    }
    std::stable_sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.y < b.y; });
    constexpr double apart = 16;
    for (std::size_t i = 1; i < names.size(); ++i)
        names[i].y = std::max(names[i].y, names[i - 1].y + apart);
    const double over = names.empty() ? 0 : std::max(0.0, names.back().y - (height - bottom));
    for (Name& name : names) {
        const double at = name.y - over;
        out += "<rect x=\"" + number(width - right + 10) + "\" y=\"" + number(at - 5) +
               "\" width=\"10\" height=\"10\" fill=\"" + name.color + "\"/>\n";
        out += text_at(width - right + 26, at + 4, name.text, "start");
    }
    return out + "</svg>\n";
}

} // namespace truestep::model
