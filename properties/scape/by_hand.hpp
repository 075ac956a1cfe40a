#pragma once

#include <vector>

#include <truestep/properties/scape/case.hpp>

// Section 2, and the schedule of section 4, once more: coordinate by coordinate, straight from the text.
// problem/ stands under the reference and every implementation of this tree alike, so that what is wrong
// there is wrong on both sides of a comparison; the properties of masks ask here instead.

namespace truestep::properties::scape {

struct SegmentByHand {
    Index begin = 0;
    Index end = 0;
    int owner = 0;
    bool always_dense = false;

    [[nodiscard]] Index size() const { return end - begin; }
};

[[nodiscard]] std::vector<SegmentByHand> segments_by_hand(const Case& run);

/// Of one value of each rank: sections 5 and 32, before the division.
[[nodiscard]] float sum_by_hand(const Case& run, const std::vector<float>& of_ranks);

/// delta(t).
[[nodiscard]] double density_by_hand(const Case& run, Index t);

} // namespace truestep::properties::scape
