#pragma once

#include <cstdint>
#include <initializer_list>

#include <truestep/problem/mix64.hpp>

namespace truestep::training {

/// 64 bits that depend only on these numbers (a SplitMix64 step for each).
[[nodiscard]] constexpr std::uint64_t drawn(std::initializer_list<std::uint64_t> from) {
    std::uint64_t state = 0;
    for (const std::uint64_t number : from)
        state = problem::mix64(state + number + 0x9e37'79b9'7f4a'7c15U);
    return state;
}

} // namespace truestep::training
