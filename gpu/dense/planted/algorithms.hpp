// Algorithms with a known bug.
#pragma once

#include "algorithms/rules.hpp"

namespace truestep::gpu::dense::planted {

/// Fuses a multiplication and an addition, as compilers do by default.
struct FusedMoments {
    TRUESTEP_BLOCK static float first(const distributed::Scalars& s, float m, float g) {
        return std::fma(s.b1, m, s.a1 * g);
    }
};
struct FusedAdam : AdamWith<FusedMoments> {};

} // namespace truestep::gpu::dense::planted
