#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

// The statistics that reports give of repeated measurements.

namespace truestep {

/// The value below which a `share` of the others lie, interpolated between two values. NaN if there
/// are none; NaN counts as the greatest.
[[nodiscard]] inline double quantile(std::vector<double> values, double share) {
    if (values.empty())
        return std::nan("");
    std::ranges::sort(values, [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double part = place - static_cast<double>(below);
    return part == 0 ? values[below] : (1 - part) * values[below] + part * values[below + 1];
}

/// The middle value, or the mean of the two in the middle.
[[nodiscard]] inline double median(std::vector<double> values) {
    return quantile(std::move(values), 0.5);
}

/// Half of the distance between the quartiles, as a share of the median.
[[nodiscard]] inline double spread(const std::vector<double>& values) {
    return (quantile(values, 0.75) - quantile(values, 0.25)) / 2 / median(values);
}

} // namespace truestep
