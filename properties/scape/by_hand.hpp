#pragma once

#include <vector>

#include <truestep/properties/scape/case.hpp>

// Section 2 and the schedule of section 4, worked out a second time, coordinate by coordinate from the
// text. The reference and all implementations of this tree use problem/, so a comparison cannot show an
// error in it. The properties of masks use this instead.

namespace truestep::properties::scape {

struct SegmentByHand {
    Index begin = 0;
    Index end = 0;
    int owner = 0;
    bool always_dense = false;

    [[nodiscard]] Index size() const { return end - begin; }
};

[[nodiscard]] std::vector<SegmentByHand> segments_by_hand(const Case& run);

/// The sum of one value of each rank by sections 5 and 32, before the division.
[[nodiscard]] float sum_by_hand(const Case& run, const std::vector<float>& of_ranks);

/// delta(t).
[[nodiscard]] double density_by_hand(const Case& run, Index t);

} // namespace truestep::properties::scape
