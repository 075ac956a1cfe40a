#pragma once

// Algorithms with a mistake.

#include <cmath>

#include "algorithms/meeting.hpp"

namespace truestep::gpu::gasloc::planted {

/// A multiplication and an addition in one, as compilers do it unless they are told not to.
struct FusedMeeting {
    TRUESTEP_BLOCK static float drift(float eta, float theta, float x) {
        return std::fma(eta, x - theta, theta);
    }
};
using FusedDrift = DriftWith<FusedMeeting>;

} // namespace truestep::gpu::gasloc::planted
