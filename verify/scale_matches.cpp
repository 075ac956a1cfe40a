// Counts wrong values or steps that are a whole factor away from the expected ones.
#include <truestep/verify/scale_matches.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace truestep::verify {

namespace {

/// A factor must change a value by this many times its uncertainty to count.
constexpr double plainly = 8.0;
constexpr double last_place = 0x1p-23; ///< of a float, as a share of its value at most

template <class Tells>
Index count(std::size_t size, const std::vector<bool>& wrong, const Tells& tells) {
    Index found = 0;
    for (std::size_t i = 0; i < std::min(size, wrong.size()); ++i)
        found += wrong[i] && tells(i) ? 1 : 0;
    return found;
}

bool is_times(float factor, float value, float given) {
    // An implementation that divides before we multiply rounds elsewhere: 3 * (x / 3) is not always
    // x.
    return std::isnormal(value) && std::isnormal(given) &&
           (value * factor == given || given / factor == value);
}

/// `rounding` is the error of the given value and of the expected one, beside its limit.
bool is_near(double factor, double value, double limit, double rounding, double given) {
    const double uncertain = factor * limit + rounding;
    return std::isfinite(limit) && std::abs(given - factor * value) <= uncertain &&
           std::abs(factor - 1.0) * std::abs(value) >
               plainly * (std::max(limit, factor * limit) + rounding);
}

} // namespace

ScaleMatches scaled_by(int factor, std::span<const float> expected, std::span<const float> actual,
                       const std::vector<bool>& wrong) {
    if (factor < 2)
        return {};
    const auto by = static_cast<float>(factor);
    const std::size_t size = std::min(expected.size(), actual.size());
    return {count(size, wrong, [&](std::size_t i) { return is_times(by, expected[i], actual[i]); }),
            count(size, wrong, [&](std::size_t i) { return is_times(by, actual[i], expected[i]); })};
}

ScaleMatches scaled_by(int factor, std::span<const double> expected, std::span<const double> limits,
                       std::span<const float> actual, const std::vector<bool>& wrong) {
    if (factor < 2)
        return {};
    const auto near = [&](double by) {
        return count(std::min(expected.size(), actual.size()), wrong, [&](std::size_t i) {
            return is_near(by, expected[i], limits[i], last_place * std::abs(by * expected[i]),
                           static_cast<double>(actual[i]));
        });
    };
    return {near(factor), near(1.0 / factor)};
}

ScaleMatches steps_scaled_by(int factor, std::span<const double> before, std::span<const double> expected,
                             std::span<const double> limits, std::span<const float> actual,
                             const std::vector<bool>& wrong) {
    if (factor < 2)
        return {};
    const auto near = [&](double by) {
        return count(std::min({before.size(), expected.size(), actual.size()}), wrong, [&](std::size_t i) {
            const auto given = static_cast<double>(actual[i]);
            const double greatest = std::max({std::abs(before[i]), std::abs(expected[i]), std::abs(given)});
            // The decay's product, its scalar and the sum round, once in each of the two.
            const double rounding = (1.0 + by) * 1.5 * last_place * greatest;
            return is_near(by, expected[i] - before[i], limits[i], rounding, given - before[i]);
        });
    };
    return {near(factor), near(1.0 / factor)};
}

} // namespace truestep::verify
