#pragma once

#include <cstdint>

#include <truestep/problem/mix64.hpp>

namespace truestep::problem::mapl {

/// Draws from nearly a normal distribution: a sum of twelve 32-bit whole numbers, so that every
/// machine makes the same.
inline double normal(std::uint64_t seed, std::uint64_t index) {
    double sum = 0.0;
    for (std::uint64_t i = 0; i < 12; ++i)
        sum += static_cast<double>(
            problem::mix64(problem::mix64(seed + 0x9e3779b97f4a7c15U * (index * 12 + i + 1))) >> 32U);
    return sum * 0x1p-32 - 6.0;
}

} // namespace truestep::problem::mapl
