#pragma once

#include <optional>

#include "model/plot.hpp"

namespace truestep::model {

/// The law y = factor * x^exponent.
struct PowerFit {
    double factor = 0;
    double exponent = 0;
    double residual =
        0;              ///< root of the mean square of the logarithms' distances: a share of y, while small
    double largest = 0; ///< the largest of them
    double from = 0;    ///< the range of x that was fitted
    double to = 0;

    [[nodiscard]] double at(double x) const;
};

/// Least squares of the logarithms, over the points whose x is at least `from`. Returns nothing for
/// fewer than three points: two would have no residual.
[[nodiscard]] std::optional<PowerFit> fit_power(const Curve& points, double from);

} // namespace truestep::model
