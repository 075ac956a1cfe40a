#pragma once

// Algorithms with a known bug.

#include <bit>
#include <cmath>

#include "algorithms/exchanged_values.hpp"
#include "algorithms/local.hpp"
#include "algorithms/update.hpp"

namespace truestep::gpu::scape::planted {

/// Fuses a multiplication and an addition, as compilers do by default.
struct Fused {
    TRUESTEP_BLOCK static float local(const distributed::Scalars& s, float m, float g, float e) {
        return std::fma(s.a1, g, s.b1 * m) + e;
    }
};
template <bool Watching>
using FusedLocalPass = LocalPassWith<Fused, Watching>;

/// Rounds the payload by a shift, the cheapest conversion: towards 0 instead of to the nearest.
struct CutOff : Rounding {
    TRUESTEP_BLOCK static std::uint16_t to_bf16(float c) {
        return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(c) >> 16U);
    }
    TRUESTEP_BLOCK static std::uint8_t to_e5m2(const Coding& coding, float c) {
        const std::uint8_t nearest = Rounding::to_e5m2(coding, c);
        const float p = distributed::element::from_e5m2(coding.scale, nearest);
        const bool further = distributed::element::score(p) > distributed::element::score(c);
        return static_cast<std::uint8_t>(further ? nearest - 1 : nearest);
    }
};
struct PayloadCutOff : RoundPayloadWith<CutOff> {};

/// Clears the residual where it is sent, as without rounding.
struct RestDropped : Rounding {
    TRUESTEP_BLOCK static float rest(float, float) { return 0.0F; }
};
struct PayloadWithoutRest : RoundPayloadWith<RestDropped> {};

/// Clears subnormals of a vector, as a device's flush-to-zero mode does.
struct FlushToZero {
    struct Arguments {
        Index size;
        float* values;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            if (distributed::element::score(a.values[at]) < 0x0080'0000U)
                a.values[at] = 0.0F * a.values[at];
        });
    }
};

} // namespace truestep::gpu::scape::planted
