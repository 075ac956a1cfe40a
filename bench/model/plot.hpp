// Draws curves over two logarithmic axes as a standalone SVG.
#pragma once

#include <string>
#include <vector>

namespace truestep::model {

struct Curve {
    std::string name; ///< none: it belongs to the curve before it, and looks like it
    std::vector<double> x;
    std::vector<double> y;
    bool points = false; ///< marks in place of a line
};

/// Curves over two logarithmic axes, as a standalone SVG that is readable on light and on dark
/// pages.
struct Plot {
    std::string title;
    std::string x_label;
    std::string y_label;
    std::vector<Curve> curves;

    [[nodiscard]] std::string svg() const;
};

} // namespace truestep::model
