// Judges recorded masks: near ties, distances of scores, and masks that belong to another step.
#include "masks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <type_traits>

#include <truestep/problem/text.hpp>
#include <truestep/reference/scape/selection.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify::scape {

namespace {

/// The competing coordinates of the owner's c.
struct Rivals {
    Index left = 0;  ///< the least one that the reference takes and the trace does not
    Index taken = 0; ///< the greatest one that the trace takes and the reference does not
};

template <class T>
auto magnitude(const T& value) {
    if constexpr (std::is_same_v<T, float>)
        return std::abs(value);
    else
        return std::abs(value.value());
}

template <class T>
std::optional<Rivals> rivals(const problem::Segment& segment, const Coordinates& right,
                             const Bits& recorded, const Vector<T>& c) {
    std::optional<Index> left;
    std::optional<Index> taken;
    for (Index i = segment.begin; i < segment.end; ++i) {
        const bool in_right = std::ranges::binary_search(right, i);
        const bool in_recorded = has_bit(recorded, i);
        if (in_right && !in_recorded && (!left || magnitude(c[i]) < magnitude(c[*left])))
            left = i;
        if (in_recorded && !in_right && (!taken || magnitude(c[i]) > magnitude(c[*taken])))
            taken = i;
    }
    return left && taken ? std::optional(Rivals{*left, *taken}) : std::nullopt;
}

std::string distance_text(float left, float taken) {
    const double ulps = ulp_distance(magnitude(left), magnitude(taken));
    return ulps == 0.0 ? "the same score, and the lower coordinate comes first"
                       : "a margin of " + shortest(ulps) + " ULP";
}

template <class Format>
std::string distance_text(const BoundedIn<Format>& left, const BoundedIn<Format>& taken) {
    const double between = magnitude(left) - magnitude(taken);
    const double bound = rel_slack * (left.error() + taken.error());
    char times[32];
    std::snprintf(times, sizeof times, "%.3g", between / bound);
    return "a margin of " + shortest(static_cast<float>(between)) +
           (bound > 0.0 ? std::string(", ") + times + " times the bound on their rounding"
                        : std::string(", and neither is rounded"));
}

Index wrong_in(const Comparison& comparison, const problem::Segment& segment) {
    const auto known = static_cast<Index>(comparison.wrong.size());
    return segment.begin >= known
               ? 0
               : std::count(comparison.wrong.begin() + segment.begin,
                            comparison.wrong.begin() + std::min(segment.end, known), true);
}

/// Counts the wrong segments that another step's mask explains: all of `as_other` is right, and
/// something in `changed` differs.
MaskStepShift mask_step_shift(const problem::Problem& problem, const Comparison& as_it_should_be,
                              const Comparison& as_other, const std::optional<Comparison>& changed) {
    MaskStepShift found;
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

template <class T>
Bits tolerable_bits(const problem::Problem& problem, const PerRank<T>& c, double density,
                    const Bits& recorded) {
    if constexpr (std::is_same_v<T, float>)
        return {};
    else {
        Bits allowed(recorded.size(), 0);
        for (const problem::Segment& segment : problem.segments) {
            if (static_cast<std::size_t>(segment.owner) >= c.size())
                continue;
            const Vector<T>& owner = c[static_cast<std::size_t>(segment.owner)];
            Index count = 0;
            double least_taken = std::numeric_limits<double>::infinity();
            double greatest_left = 0.0;
            for (Index i = segment.begin; i < segment.end; ++i) {
                const double error = rel_slack * owner[i].error();
                if (has_bit(recorded, i)) {
                    ++count;
                    least_taken = std::min(least_taken, magnitude(owner[i]) + error);
                } else {
                    greatest_left = std::max(greatest_left, magnitude(owner[i]) - error);
                }
            }
            if (count == selected_count(segment, density, problem.settings.k_rounding) &&
                greatest_left <= least_taken)
                for (Index i = segment.begin; i < segment.end; ++i) {
                    std::uint8_t& byte = allowed[static_cast<std::size_t>(i / 8)];
                    byte = static_cast<std::uint8_t>(byte | (1U << static_cast<unsigned>(i % 8)));
                }
        }
        return allowed;
    }
}

template <class T>
std::string margin(const problem::Problem& problem, const PerRank<T>& c, const Coordinates& right,
                   const Bits& recorded, Index index) {
    const auto segment = std::ranges::find_if(problem.segments,
                                              [&](const problem::Segment& one) { return index < one.end; });
    if (segment == problem.segments.end() || static_cast<std::size_t>(segment->owner) >= c.size())
        return {};
    const Vector<T>& owners = c[static_cast<std::size_t>(segment->owner)];
    const auto found = rivals(*segment, right, recorded, owners);
    if (!found)
        return {};
    const T& left = owners[found->left];
    const T& taken = owners[found->taken];
    return "the mask leaves out coordinate " + std::to_string(problem.layout.place(found->left)) +
           ", |c| " + shortest(static_cast<float>(magnitude(left))) + ", and has " +
           std::to_string(problem.layout.place(found->taken)) + ", |c| " +
           shortest(static_cast<float>(magnitude(taken))) + ": " + distance_text(left, taken);
}

template Bits tolerable_bits(const problem::Problem&, const PerRank<float>&, double, const Bits&);
template Bits tolerable_bits(const problem::Problem&, const PerRank<Bounded>&, double, const Bits&);
template Bits tolerable_bits(const problem::Problem&, const PerRank<BoundedBf16>&, double, const Bits&);
template std::string margin(const problem::Problem&, const PerRank<float>&, const Coordinates&, const Bits&,
                            Index);
template std::string margin(const problem::Problem&, const PerRank<Bounded>&, const Coordinates&,
                            const Bits&, Index);
template std::string margin(const problem::Problem&, const PerRank<BoundedBf16>&, const Coordinates&,
                            const Bits&, Index);

MaskStepShifts mask_step_shifts(const problem::Problem& problem, const RecordedMasks& recorded,
                                const Comparison& of_used, const Comparison& of_next,
                                const std::function<Comparison()>& used_as_next) {
    const Index size = problem.layout.size();
    MaskStepShifts shifts;
    if (recorded.used && !of_used.ok()) {
        // A mask that never changes would match the next step as well as the step before.
        std::optional<Comparison> changed;
        if (recorded.used_before)
            changed = compare_masks(*recorded.used_before, *recorded.used, size);
        shifts.early = mask_step_shift(problem, of_used, used_as_next(), changed);
    }
    if (recorded.used && recorded.next && !of_next.ok()) {
        // A segment that is used whole looks like any step before the first sparse one.
        const std::vector<std::uint8_t> whole(recorded.used->size(), 0xff);
        shifts.late = mask_step_shift(problem, of_next, compare_masks(*recorded.used, *recorded.next, size),
                                      compare_masks(whole, *recorded.used, size));
    }
    return shifts;
}

} // namespace truestep::verify::scape
