#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace truestep::bench {

/// Gradients like verify's `normal` data: approximately normal, half of it common to all ranks.
/// Each coordinate keeps its own deviation from 1 down to 1/16, as in gradients of one model. They
/// depend only on rank, step and index, and are fast enough for 2^28 values.
inline void fill_with_random(std::span<float> values, int rank, int step) {
    const auto mixed = [](std::uint64_t seed, std::size_t index) {
        std::uint64_t bits = seed + (index + 1) * 0xd134'2543'de82'ef95U;
        bits = (bits ^ (bits >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
        bits = (bits ^ (bits >> 27U)) * 0x94d0'49bb'1331'11ebU;
        return bits ^ (bits >> 31U);
    };
    // The sum of four signed 16-bit numbers.
    const auto bell = [](std::uint64_t bits) {
        int sum = 0;
        for (unsigned part = 0; part < 4; ++part)
            sum += static_cast<std::int16_t>(bits >> (16 * part));
        return sum;
    };
    const auto seed_of = [step](std::uint64_t who) {
        return (who << 32U | static_cast<std::uint32_t>(step)) * 0x9e37'79b9'7f4a'7c15U;
    };
    constexpr std::array<float, 5> deviations{0x1p-16F, 0x1p-17F, 0x1p-18F, 0x1p-19F, 0x1p-20F};
    const std::uint64_t of_all = seed_of(1);
    const std::uint64_t own = seed_of(static_cast<std::uint64_t>(rank) + 2);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(bell(mixed(of_all, i)) + bell(mixed(own, i))) *
                    deviations[mixed(0, i) % deviations.size()];
}

} // namespace truestep::bench
