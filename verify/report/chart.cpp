// Draws all curves, for pages and for separate files.
#include <truestep/report/chart.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include "page_rows.hpp"

namespace truestep::report::page {

namespace {

// The colours of page_style.css in the drawing itself, because a separate file has no page around
// it.
constexpr const char* alone_style = R"css(
.ground { fill: #ffffff; } .tick { fill: #556072; font-size: 10px; } .rule { stroke: #dce1e8; }
.name { fill: #1a2230; font-size: 10.5px; } .letter { fill: #1a2230; font-size: 11px; font-weight: 700; }
@media (prefers-color-scheme: dark) {
.ground { fill: #181e26; } .tick { fill: #9ba7b6; } .rule { stroke: #2c3541; } .name, .letter { fill: #e3e8ef; }
}
)css";

std::string drawing_of(double width, double height, const std::string& label, const std::string& more,
                       const std::string& content) {
    return "<svg" + more + " role=\"img\" viewBox=\"0 0 " + px(width) + " " + px(height) +
           "\" aria-label=\"" + escaped(label) + "\">" + content + "</svg>";
}

} // namespace

std::string px(double value) {
    std::string result = fixed(value, 1);
    return result.ends_with(".0") ? result.substr(0, result.size() - 2) : result;
}

std::string rounded(double value, int digits) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                   std::chars_format::general, digits)
                         .ptr;
    return {buffer.data(), end};
}

std::string drawing_in_page(double width, double height, const std::string& label,
                            const std::string& content) {
    return drawing_of(width, height, label, "", content);
}

std::string drawing_alone(double width, double height, const std::string& label, const std::string& content,
                          const std::string& style) {
    return drawing_of(width, height, label,
                      " xmlns=\"http://www.w3.org/2000/svg\" font-family=\"system-ui, sans-serif\"",
                      "<style>" + std::string(chart_style()) + alone_style + style +
                          "</style><rect class=\"ground\" width=\"" + px(width) + "\" height=\"" +
                          px(height) + "\"/>" + content);
}

std::string label(const std::string& look, double x, double y, const std::string& anchor,
                  const std::string& words) {
    return "<text class=\"" + look + "\" text-anchor=\"" + anchor + "\" x=\"" + px(x) + "\" y=\"" + px(y) +
           "\">" + escaped(words) + "</text>";
}

std::string path(const std::string& look, const std::string& d) {
    return d.empty() ? d : "<path class=\"" + look + "\" d=\"" + d + "\"/>";
}

std::string line_look(std::size_t i) {
    constexpr std::size_t looks = 9; // of chart_style.css
    return "line" + std::to_string(i % looks);
}

std::vector<double> apart(const std::vector<double>& places, double gap, double top, double bottom) {
    std::vector<std::size_t> order(places.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return places[i]; });
    std::vector<double> result = places;
    double free_from = top;
    for (const std::size_t i : order) {
        result[i] = std::max(result[i], free_from);
        free_from = result[i] + gap;
    }
    // Labels that were pushed off the bottom push back.
    double free_to = bottom;
    std::ranges::reverse(order);
    for (const std::size_t i : order) {
        result[i] = std::min(result[i], free_to);
        free_to = result[i] - gap;
    }
    return result;
}

std::string clipped(const std::string& name, std::size_t most) {
    if (name.size() <= most)
        return name;
    std::size_t end = most;
    // To a whole character of UTF-8.
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0U) == 0x80U)
        --end;
    return name.substr(0, end) + "…";
}

double round_part(double whole, double parts) {
    if (!(whole > 0.0))
        return 1.0;
    const double power = std::pow(10.0, std::floor(std::log10(whole / parts)));
    for (const double times : {1.0, 2.0, 5.0})
        if (times * power * parts >= whole)
            return times * power;
    return 10.0 * power;
}

bool Axis::has_place(double value) const {
    return std::isfinite(value) && (!logarithmic || value > 0.0);
}

void Axis::include(double value) {
    if (!has_place(value))
        return;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
}

void Axis::divide(bool to_ticks) {
    constexpr double slack = 1e-9;
    if (least > greatest) {
        least = logarithmic ? 1.0 : 0.0;
        greatest = 1.0;
    }
    if (logarithmic) {
        ticks = powers();
        if (to_ticks) {
            greatest = *std::ranges::lower_bound(ticks, greatest * (1.0 - slack));
            least = *std::prev(std::ranges::upper_bound(ticks, least * (1.0 + slack)));
        }
        std::erase_if(ticks, [this](double tick) { return tick < least || tick > greatest; });
        return;
    }
    const double step = round_part(std::max(greatest - least, slack), 5);
    for (double tick = std::ceil(least / step) * step; tick <= greatest * (1.0 + 1e-12); tick += step)
        ticks.push_back(tick);
}

std::vector<double> Axis::powers() const {
    constexpr double few = 1000.0;
    std::vector<double> all;
    for (double power = std::floor(std::log10(least)); power <= std::ceil(std::log10(greatest)) + 1.0;
         ++power)
        for (const double times : {1.0, 2.0, 5.0})
            if (times == 1.0 || greatest / least < few)
                all.push_back(times * std::pow(10.0, power));
    return all;
}

double Axis::share(double value) const {
    const auto scaled = [this](double x) { return logarithmic ? std::log10(x) : x; };
    const double whole = scaled(greatest) - scaled(least);
    return whole > 0.0 ? (scaled(value) - scaled(least)) / whole : 0.5;
}

std::string Chart::axes(bool grid) const {
    std::string svg;
    for (const double tick : y_.ticks)
        svg += path("rule", "M" + px(box_.left) + " " + px(y(tick)) + "H" + px(box_.right())) +
               label("tick", box_.left - 5, y(tick) + 3.5, "end", y_.text(tick));
    for (const double tick : x_.ticks)
        svg +=
            path("rule", "M" + px(x(tick)) + " " + px(box_.bottom()) + "v" + px(grid ? -box_.height : 4)) +
            label("tick", x(tick), box_.bottom() + 14, "middle", x_.text(tick));
    if (!x_.name.empty())
        svg += label("tick", box_.left + box_.width / 2, box_.bottom() + 26, "middle", x_.name);
    return y_.name.empty() ? svg : svg + label("tick", 8, box_.top - 9, "start", y_.name);
}

std::string Chart::curve(const std::string& kind, const std::string& look,
                         const std::vector<Spot>& spots) const {
    std::string d;
    std::vector<Spot> alone;
    for (std::size_t i = 0; i < spots.size(); ++i) {
        if (!has_place(spots[i]))
            continue;
        const bool before = i > 0 && has_place(spots[i - 1]);
        const bool after = i + 1 < spots.size() && has_place(spots[i + 1]);
        if (before || after)
            d += (before ? "L" : "M") + at(spots[i]);
        else
            alone.push_back(spots[i]);
    }
    return path(kind + " " + look, d) + dots(look, alone);
}

std::string Chart::dots(const std::string& look, const std::vector<Spot>& spots) const {
    std::string d;
    for (const Spot spot : spots)
        d += "M" + at(spot) + "h0";
    return path("dot " + look, d);
}

} // namespace truestep::report::page
