#pragma once

#include <truestep/problem/layout.hpp>

// What the peer and its reference have to agree on: the constants of the published algorithm, and of ours
// where it leaves them open.

namespace truestep::peers::ok_topk {

/// Thresholds and regions are made anew every so many steps, and reused in between.
constexpr problem::Index period = 32;
/// A selection that is off k by more than this share is mended: the local one is made anew; the threshold
/// of the sums becomes what it should have been, or where too few came is lowered. (ours)
constexpr double tolerance = 0.25;
constexpr float nudge = 1.1F;
/// The owners' parts of the result are evened out when the largest exceeds the mean by this factor.
constexpr double imbalance = 4.0;

} // namespace truestep::peers::ok_topk
