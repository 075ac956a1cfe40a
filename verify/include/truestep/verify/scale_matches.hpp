#pragma once

#include <span>
#include <vector>

#include <truestep/verify/comparator.hpp>

/// Counts how many `wrong` values are the expected ones times a whole number of at least 2, or
/// divided by it: a sum in place of a mean, and the like. Zeros, non-finite values and subnormals
/// do not count.
namespace truestep::verify {

/// Compares bits, except for one rounding if the factor is not a power of two.
[[nodiscard]] ScaleMatches scaled_by(int factor, std::span<const float> expected,
                                     std::span<const float> actual, const std::vector<bool>& wrong);

/// Compares within the limits of values in double, if these are small compared with the factor's
/// effect.
[[nodiscard]] ScaleMatches scaled_by(int factor, std::span<const double> expected,
                                     std::span<const double> limits, std::span<const float> actual,
                                     const std::vector<bool>& wrong);

/// Compares how far values moved from `before`: within the rounding of the sum, if that is small
/// compared with the factor's effect.
[[nodiscard]] ScaleMatches steps_scaled_by(int factor, std::span<const double> before,
                                           std::span<const double> expected, std::span<const double> limits,
                                           std::span<const float> actual, const std::vector<bool>& wrong);

} // namespace truestep::verify
