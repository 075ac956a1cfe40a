#pragma once

#include <cstdint>

namespace truestep::problem {

/// SplitMix64's finalizer: one to one, and a bit that changes turns about half of them.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t value) {
    value ^= value >> 30U;
    value *= 0xbf58476d1ce4e5b9U;
    value ^= value >> 27U;
    value *= 0x94d049bb133111ebU;
    value ^= value >> 31U;
    return value;
}

} // namespace truestep::problem
