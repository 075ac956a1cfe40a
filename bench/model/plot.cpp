#include "model/plot.hpp"

#include <cstddef>

#include <truestep/report/chart.hpp>

namespace truestep::model {

std::string Plot::svg() const {
    using namespace report::page;
    constexpr double width = 560;
    constexpr double height = 330;
    constexpr Chart::Box box{.left = 46, .top = 40, .width = 374, .height = 254};
    const auto number = [](double value) { return rounded(value, 6); };
    Axis across{.name = x_label, .logarithmic = true, .text = number};
    Axis upwards{.name = y_label, .logarithmic = true, .text = number};
    for (const Curve& curve : curves)
        for (std::size_t j = 0; j < curve.x.size(); ++j) {
            across.include(curve.x[j]);
            upwards.include(curve.y[j]);
        }
    across.divide(true);
    upwards.divide(true);
    const Chart chart(box, across, upwards);

    std::string svg = label("letter", 8, 16, "start", title) + chart.axes(true);
    // Names stand next to the ends of the curves.
    std::vector<const Curve*> names;
    std::vector<double> ends;
    for (const Curve& curve : curves) {
        const std::string look = line_look(names.size() - (curve.name.empty() ? 1 : 0));
        std::vector<Chart::Spot> spots;
        for (std::size_t j = 0; j < curve.x.size(); ++j)
            spots.push_back({curve.x[j], curve.y[j]});
        svg += curve.points ? chart.dots(look, spots) : chart.curve("curve", look, spots);
        if (curve.name.empty())
            continue;
        names.push_back(&curve);
        ends.push_back(chart.y(curve.y.back()));
    }
    const std::vector<double> places = apart(ends, 13, box.top, box.bottom());
    for (std::size_t i = 0; i < names.size(); ++i)
        svg +=
            path((names[i]->points ? "dot " : "curve ") + line_look(i),
                 "M" + px(box.right() + 8) + " " + px(places[i]) + (names[i]->points ? "m7 0h0" : "h14")) +
            label("name", box.right() + 26, places[i] + 3.5, "start", names[i]->name);
    return drawing_alone(width, height, title, svg) + "\n";
}

} // namespace truestep::model
