#include "svg.hpp"

#include <algorithm>
#include <numeric>

#include <truestep/report/frame.hpp>

namespace truestep::training::svg {

namespace {

// In each drawing, for a file has no page around it. Lines differ in dashes, too: colour is never all that
// tells.
constexpr const char* style = R"css(
.t-ground { fill: #ffffff; } .t-tick { fill: #556072; font-size: 10px; } .t-name { fill: #1a2230; font-size: 10.5px; }
.t-letter { fill: #1a2230; font-size: 11px; font-weight: 700; }
.t-over { paint-order: stroke; stroke: #ffffff; stroke-width: 3.5px; stroke-linejoin: round; } .t-rule { stroke: #dce1e8; stroke-width: 1; }
.t-seed { fill: none; stroke-width: .8; stroke-opacity: .5; } .t-median { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.t-floor { fill: none; stroke: #6b7585; stroke-width: 1; stroke-dasharray: 4 3; }
.t-entropy { fill: none; stroke: #1a2230; stroke-width: 1.4; stroke-dasharray: 1 3; stroke-linecap: round; }
.t-0 { stroke: #3a78c2; } .t-1 { stroke: #c26210; stroke-dasharray: 6 2; } .t-2 { stroke: #2f8f5b; stroke-dasharray: 2 2; }
.t-3 { stroke: #b0469a; stroke-dasharray: 8 2 2 2; } .t-4 { stroke: #8a7a12; } .t-5 { stroke: #2f96a8; stroke-dasharray: 6 2; }
.t-6 { stroke: #d3554d; stroke-dasharray: 2 2; } .t-7 { stroke: #7a6bd0; stroke-dasharray: 8 2 2 2; }
.t-SAME { fill: #e3f3ea; } .t-WORSE { fill: #fce8e6; } .t-BETTER { fill: #dceafa; } .t-UNDECIDED { fill: #eceff3; } .t-MISTRUSTED { fill: #fcf0d4; }
.t-absent { fill: none; stroke: #9aa4b2; stroke-width: .7; stroke-dasharray: 2 2; }
@media (prefers-color-scheme: dark) {
.t-ground { fill: #181e26; } .t-tick { fill: #9ba7b6; } .t-name, .t-letter { fill: #e3e8ef; } .t-rule { stroke: #2c3541; }
.t-floor { stroke: #8793a3; } .t-over { stroke: #181e26; } .t-entropy { stroke: #e3e8ef; }
.t-SAME { fill: #14301f; } .t-WORSE { fill: #3d1b19; } .t-BETTER { fill: #152d4a; } .t-UNDECIDED { fill: #232a34; } .t-MISTRUSTED { fill: #362810; }
}
)css";

} // namespace

std::string begin(double width, double height, const std::string& label) {
    using report::page::px;
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 " + px(width) + " " +
           px(height) + "\" font-family=\"system-ui, sans-serif\" aria-label=\"" +
           report::page::escaped(label) + "\"><style>" + style +
           "</style><rect class=\"t-ground\" width=\"" + px(width) + "\" height=\"" + px(height) + "\"/>";
}

std::string label(const std::string& look, double x, double y, const std::string& anchor,
                  const std::string& words) {
    using report::page::px;
    return "<text class=\"" + look + "\" text-anchor=\"" + anchor + "\" x=\"" + px(x) + "\" y=\"" + px(y) +
           "\">" + report::page::escaped(words) + "</text>";
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
    // Whoever was pushed off the bottom pushes back.
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

} // namespace truestep::training::svg
