#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <truestep/distributed/element.hpp>
#include <truestep/distributed/scalars.hpp>

namespace truestep::peers {

using distributed::Scalars;

using distributed::scalars_of;

/// Converts a finite number to bf16: the upper half of fp32, rounded to nearest even.
inline std::uint16_t to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

inline float from_bf16(std::uint16_t half) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U);
}

} // namespace truestep::peers
