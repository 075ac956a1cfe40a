#include "slips.hpp"

#include <algorithm>

namespace truestep::verify {

namespace {

Index wrong_in(const Comparison& comparison, const problem::Segment& segment) {
    const auto known = static_cast<Index>(comparison.wrong.size());
    return segment.begin >= known
               ? 0
               : std::count(comparison.wrong.begin() + segment.begin,
                            comparison.wrong.begin() + std::min(segment.end, known), true);
}

/// Explained is a segment that is wrong, in which all of `as_other` is right and something in `changed`
/// differs.
MaskSlip slip(const problem::Problem& problem, const Comparison& as_it_should_be,
              const Comparison& as_other, const std::optional<Comparison>& changed) {
    MaskSlip found;
    for (const problem::Segment& segment : problem.segments) {
        if (segment.always_dense)
            continue; // the same at all steps
        const Index wrong = wrong_in(as_it_should_be, segment);
        found.wrong += wrong > 0 ? 1 : 0;
        if (wrong_in(as_other, segment) > 0) {
            ++found.against;
        } else if (wrong > 0 && (!changed || wrong_in(*changed, segment) > 0)) {
            ++found.explained;
            found.coordinates += wrong;
        }
    }
    return found;
}

} // namespace

MaskSlips mask_slips(const problem::Problem& problem, const RecordedMasks& recorded,
                     const Comparison& of_used, const Comparison& of_next,
                     const std::function<Comparison()>& used_as_next) {
    const Index size = problem.layout.size();
    MaskSlips slips;
    if (recorded.used && !of_used.ok()) {
        // One that never changes is as much the next step's as the step's before.
        std::optional<Comparison> changed;
        if (recorded.used_before)
            changed = compare_masks(*recorded.used_before, *recorded.used, size);
        slips.early = slip(problem, of_used, used_as_next(), changed);
    }
    if (recorded.used && recorded.next && !of_next.ok()) {
        // A segment that is used whole is what any step before a first sparse one has.
        const std::vector<std::uint8_t> whole(recorded.used->size(), 0xff);
        slips.late = slip(problem, of_next, compare_masks(*recorded.used, *recorded.next, size),
                          compare_masks(whole, *recorded.used, size));
    }
    return slips;
}

} // namespace truestep::verify
