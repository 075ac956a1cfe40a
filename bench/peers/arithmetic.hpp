#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <truestep/distributed/element.hpp>
#include <truestep/distributed/scalars.hpp>

namespace truestep::peers {

using distributed::Scalars;

using distributed::scalars_of;

/// bf16: the upper half of an fp32 number, rounded to nearest even. Of finite numbers.
inline std::uint16_t to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

inline float from_bf16(std::uint16_t half) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U);
}

} // namespace truestep::peers
