#pragma once

#include <truestep/problem/layout.hpp>

// Constants on which the peer and its reference agree: the published algorithm's, and ours where it
// leaves them open.

namespace truestep::peers::ok_topk {

/// Steps after which thresholds and regions are recomputed.
constexpr problem::Index period = 32;
/// A selection that differs from k by more than this share is corrected. The local threshold is
/// recomputed. The threshold of the sums becomes what it should have been, or is lowered if too few
/// came. (ours)
constexpr double tolerance = 0.25;
constexpr float nudge = 1.1F;
/// The owners' parts of the result are evened out if the largest exceeds the mean by this factor.
constexpr double imbalance = 4.0;

} // namespace truestep::peers::ok_topk
