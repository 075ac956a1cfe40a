#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace scape::bench {

/// About normal numbers, of rank, step and index alone: one draw of bits and the sum of four of its parts.
/// Fast enough to fill whole gradients of 2^28 values.
inline void fill_with_random(std::span<float> values, int rank, int step) {
    const std::uint64_t seed =
        (static_cast<std::uint64_t>(rank) << 32U | static_cast<std::uint32_t>(step)) *
        0x9e37'79b9'7f4a'7c15U;
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint64_t bits = seed + (i + 1) * 0xd134'2543'de82'ef95U;
        bits = (bits ^ (bits >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
        bits = (bits ^ (bits >> 27U)) * 0x94d0'49bb'1331'11ebU;
        bits ^= bits >> 31U;
        // Four signed 16-bit numbers.
        float sum = 0.0F;
        for (unsigned part = 0; part < 4; ++part)
            sum += static_cast<float>(static_cast<std::int16_t>(bits >> (16 * part)));
        values[i] = sum * 0x1p-15F;
    }
}

} // namespace scape::bench
