#pragma once

#include <span>
#include <vector>

#include <truestep/verify/comparator.hpp>

/// Of the values that are `wrong`, how many are what they should be times a whole number of at least 2, or
/// divided by it? A sum stands where a mean should, and the like. Zeros, what is not finite and subnormals
/// say nothing.
namespace truestep::verify {

/// To the bit, but for one rounding where the factor is no power of two.
[[nodiscard]] Scaled scaled_by(int factor, std::span<const float> expected, std::span<const float> actual,
                               const std::vector<bool>& wrong);

/// Within the limits of values in double, as far as these are small beside what the factor does.
[[nodiscard]] Scaled scaled_by(int factor, std::span<const double> expected, std::span<const double> limits,
                               std::span<const float> actual, const std::vector<bool>& wrong);

/// Of how far values went from where they were `before`: within the rounding of the sum, as far as that is
/// small beside what the factor does.
[[nodiscard]] Scaled steps_scaled_by(int factor, std::span<const double> before,
                                     std::span<const double> expected, std::span<const double> limits,
                                     std::span<const float> actual, const std::vector<bool>& wrong);

} // namespace truestep::verify
