#include "limits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <truestep/reference/selection.hpp>

namespace truestep::verify {

Bits tolerable_bits(const problem::Problem&, const PerRank<float>&, double, const Bits&) {
    return {};
}

template <class Format>
Bits tolerable_bits(const problem::Problem& problem, const PerRank<BoundedIn<Format>>& c, double density,
                    const Bits& recorded) {
    Bits allowed(recorded.size(), 0);
    for (const problem::Segment& segment : problem.segments) {
        if (static_cast<std::size_t>(segment.owner) >= c.size())
            continue;
        const Vector<BoundedIn<Format>>& owner = c[static_cast<std::size_t>(segment.owner)];
        Index count = 0;
        double least_taken = std::numeric_limits<double>::infinity();
        double greatest_left = 0.0;
        for (Index i = segment.begin; i < segment.end; ++i) {
            const double magnitude = std::abs(owner[i].value());
            const double error = rel_slack * owner[i].error();
            if (((recorded[static_cast<std::size_t>(i / 8)] >> static_cast<unsigned>(i % 8)) & 1U) != 0) {
                ++count;
                least_taken = std::min(least_taken, magnitude + error);
            } else {
                greatest_left = std::max(greatest_left, magnitude - error);
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

template Bits tolerable_bits(const problem::Problem&, const PerRank<Bounded>&, double, const Bits&);
template Bits tolerable_bits(const problem::Problem&, const PerRank<BoundedBf16>&, double, const Bits&);

} // namespace truestep::verify
