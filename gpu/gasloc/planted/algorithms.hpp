#pragma once

// Algorithms with a known bug.

#include <cmath>

#include "algorithms/meeting.hpp"

namespace truestep::gpu::gasloc::planted {

/// Fuses a multiplication and an addition, as compilers do by default.
struct FusedMeeting {
    TRUESTEP_BLOCK static float drift(float eta, float theta, float x) {
        return std::fma(eta, x - theta, theta);
    }
};
using FusedDrift = DriftWith<FusedMeeting>;

} // namespace truestep::gpu::gasloc::planted
