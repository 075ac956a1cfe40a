// Draws where a claim holds: density by steps.
#include <truestep/training/drawing.hpp>

#include <algorithm>
#include <functional>
#include <set>

#include <truestep/problem/text.hpp>
#include <truestep/report/chart.hpp>
#include <truestep/report/frame.hpp>

namespace truestep::training {

namespace {

using report::page::escaped;
using report::page::fixed;
using report::page::label;
using report::page::px;

constexpr double map_width = 460;
constexpr double names = 70;
constexpr double head_height = 44;
constexpr double row_height = 38;
constexpr double widest = 96;
constexpr double key_height = 22;
constexpr const char* map_style = R"css(
.t-SAME { fill: #e3f3ea; } .t-WORSE { fill: #fce8e6; } .t-BETTER { fill: #dceafa; } .t-UNDECIDED { fill: #eceff3; } .t-MISTRUSTED { fill: #fcf0d4; }
.t-absent { fill: none; stroke: #9aa4b2; stroke-width: .7; stroke-dasharray: 2 2; }
@media (prefers-color-scheme: dark) {
.t-SAME { fill: #14301f; } .t-WORSE { fill: #3d1b19; } .t-BETTER { fill: #152d4a; } .t-UNDECIDED { fill: #232a34; } .t-MISTRUSTED { fill: #362810; }
}
)css";

/// "+0.012".
std::string with_sign(double value) {
    return (value < 0.0 ? "−" : "+") + fixed(value < 0.0 ? -value : value, 3);
}

std::string map_cell(const MapCell* of, double x, double y, double cell_width) {
    const std::string box = "x=\"" + px(x + 1.5) + "\" y=\"" + px(y + 1.5) + "\" width=\"" +
                            px(cell_width - 3) + "\" height=\"" + px(row_height - 3) + "\" rx=\"4\"";
    const double middle = x + (cell_width / 2);
    if (of == nullptr)
        return "<g><title>not run</title><rect class=\"t-absent\" " + box + "/>" +
               label("tick", middle, y + 23, "middle", "–") + "</g>";
    const std::string word = name(of->verdict.outcome);
    return "<g class=\"t-cell\"><title>" + escaped(text(of->verdict)) + "</title><rect class=\"t-" + word +
           "\" " + box + "/>" + label("letter", middle, y + 17, "middle", word.substr(0, 1)) +
           label("tick", middle, y + 30, "middle", with_sign(of->verdict.difference)) + "</g>";
}

/// The letters and their meanings.
std::string key(double y) {
    std::string svg;
    double x = 8;
    for (const Outcome outcome :
         {Outcome::same, Outcome::worse, Outcome::better, Outcome::undecided, Outcome::mistrusted}) {
        const std::string word = name(outcome);
        svg += "<rect class=\"t-" + word + "\" x=\"" + px(x) + "\" y=\"" + px(y) +
               "\" width=\"16\" height=\"15\" rx=\"3\"/>" +
               label("letter", x + 8, y + 11.5, "middle", word.substr(0, 1)) +
               label("tick", x + 20, y + 11.5, "start", word);
        x += 34 + (7.2 * static_cast<double>(word.size()));
    }
    return svg;
}

} // namespace

std::string verdict_map(const std::string& title, const std::vector<MapCell>& cells) {
    std::set<double, std::greater<>> densities;
    std::set<std::size_t> steps;
    for (const MapCell& one : cells) {
        densities.insert(one.density);
        steps.insert(one.steps);
    }
    const double cell_width =
        std::min(widest, (map_width - names - 8) / std::max(1.0, static_cast<double>(steps.size())));
    const double body = row_height * static_cast<double>(densities.size());
    std::string svg =
        label("letter", 8, 15, "start", title) + label("tick", names - 6, 36, "end", "density");
    double x = names;
    for (const std::size_t column : steps) {
        svg += label("tick", x + (cell_width / 2), 36, "middle", std::to_string(column) + " steps");
        x += cell_width;
    }
    double y = head_height;
    for (const double density : densities) {
        svg += label("name", names - 6, y + 23, "end", shortest(density));
        x = names;
        for (const std::size_t column : steps) {
            const auto found = std::ranges::find_if(
                cells, [&](const MapCell& one) { return one.density == density && one.steps == column; });
            svg += map_cell(found == cells.end() ? nullptr : &*found, x, y, cell_width);
            x += cell_width;
        }
        y += row_height;
    }
    return report::page::drawing_alone(map_width, head_height + body + key_height + 10, title,
                                       svg + key(y + 8), map_style);
}

} // namespace truestep::training
