#include "margin.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include <truestep/problem/text.hpp>
#include <truestep/verify/comparator.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify {

namespace {

/// Those that compete: of the owner's c, by coordinate.
struct Rivals {
    Index left = 0;  ///< the least that the reference takes and the trace does not
    Index taken = 0; ///< the greatest that the trace takes and the reference does not
};

template <class Magnitude>
std::optional<Rivals> rivals(const problem::Segment& segment, const Coordinates& right,
                             const std::vector<std::uint8_t>& recorded, const Magnitude& magnitude) {
    std::optional<Index> left;
    std::optional<Index> taken;
    for (Index i = segment.begin; i < segment.end; ++i) {
        const bool in_right = std::ranges::binary_search(right, i);
        const bool in_recorded =
            ((recorded[static_cast<std::size_t>(i / 8)] >> static_cast<unsigned>(i % 8)) & 1U) != 0;
        if (in_right && !in_recorded && (!left || magnitude(i) < magnitude(*left)))
            left = i;
        if (in_recorded && !in_right && (!taken || magnitude(i) > magnitude(*taken)))
            taken = i;
    }
    return left && taken ? std::optional(Rivals{*left, *taken}) : std::nullopt;
}

template <class T, class Magnitude, class Apart>
std::string told_margin(const problem::Problem& problem, const PerRank<T>& c, const Coordinates& right,
                        const std::vector<std::uint8_t>& recorded, Index index, const Magnitude& magnitude,
                        const Apart& apart) {
    const auto segment = std::ranges::find_if(problem.segments,
                                              [&](const problem::Segment& one) { return index < one.end; });
    if (segment == problem.segments.end() || static_cast<std::size_t>(segment->owner) >= c.size())
        return {};
    const Vector<T>& owners = c[static_cast<std::size_t>(segment->owner)];
    const auto found = rivals(*segment, right, recorded, [&](Index i) { return magnitude(owners[i]); });
    if (!found)
        return {};
    const T& left = owners[found->left];
    const T& taken = owners[found->taken];
    return "the mask leaves out coordinate " + std::to_string(problem.layout.place(found->left)) +
           ", |c| " + shortest(static_cast<float>(magnitude(left))) + ", and has " +
           std::to_string(problem.layout.place(found->taken)) + ", |c| " +
           shortest(static_cast<float>(magnitude(taken))) + ": " + apart(left, taken);
}

} // namespace

std::string margin(const problem::Problem& problem, const PerRank<float>& c, const Coordinates& right,
                   const std::vector<std::uint8_t>& recorded, Index index) {
    const auto magnitude = [](float value) { return std::abs(value); };
    return told_margin(problem, c, right, recorded, index, magnitude, [&](float left, float taken) {
        const double ulps = ulp_distance(magnitude(left), magnitude(taken));
        return ulps == 0.0 ? std::string("the same score, and the lower coordinate comes first")
                           : "a margin of " + shortest(ulps) + " ULP";
    });
}

template <class Format>
std::string margin(const problem::Problem& problem, const PerRank<BoundedIn<Format>>& c,
                   const Coordinates& right, const std::vector<std::uint8_t>& recorded, Index index) {
    using Score = BoundedIn<Format>;
    const auto magnitude = [](const Score& value) { return std::abs(value.value()); };
    return told_margin(
        problem, c, right, recorded, index, magnitude, [&](const Score& left, const Score& taken) {
            const double between = magnitude(left) - magnitude(taken);
            const double bound = rel_slack * (left.error() + taken.error());
            char times[32];
            std::snprintf(times, sizeof times, "%.3g", between / bound);
            return "a margin of " + shortest(static_cast<float>(between)) +
                   (bound > 0.0 ? std::string(", ") + times + " times the bound on their rounding"
                                : std::string(", and neither is rounded"));
        });
}

template std::string margin(const problem::Problem&, const PerRank<Bounded>&, const Coordinates&,
                            const std::vector<std::uint8_t>&, Index);
template std::string margin(const problem::Problem&, const PerRank<BoundedBf16>&, const Coordinates&,
                            const std::vector<std::uint8_t>&, Index);

} // namespace truestep::verify
