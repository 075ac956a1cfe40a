#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <truestep/verify/comparator.hpp>

namespace truestep::verify {

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float greatest = std::numeric_limits<float>::max();
inline constexpr float least_subnormal = std::numeric_limits<float>::denorm_min();
inline constexpr double infinite = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

inline float from_bits(std::uint32_t bits) {
    return std::bit_cast<float>(bits);
}

inline float next_up(float value) {
    return std::nextafter(value, infinity);
}

inline Comparison exact(const std::vector<float>& expected, const std::vector<float>& actual) {
    return compare(expected, actual, Level::exact());
}

inline Comparison within(const std::vector<double>& expected, const std::vector<double>& limits,
                         const std::vector<float>& actual) {
    return compare(expected, limits, actual);
}

/// Every level that compares only bits, however lax.
inline std::vector<Level> levels_of_bits() {
    return {Level::exact(), Level::rerun(), Level::ulp(0.0), Level::ulp(4.0), Level::ulp(1e300)};
}

} // namespace truestep::verify
