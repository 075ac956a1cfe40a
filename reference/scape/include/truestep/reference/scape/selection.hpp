// Top-k selection by the total order of section 5.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <truestep/problem/problem.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference::scape {

/// The score of a coordinate: the bits of the magnitude, as an unsigned number. -0 scores as +0 (section
/// 5).
inline std::uint64_t score(float c) {
    return std::bit_cast<std::uint32_t>(c) & 0x7fff'ffffU;
}
inline std::uint64_t score(double c) {
    return std::bit_cast<std::uint64_t>(c) & 0x7fff'ffff'ffff'ffffU;
}

/// The k coordinates of [begin, end) that come first in the total order: larger score, then lower index.
template <class T>
Coordinates select_top(const Vector<T>& c, Index begin, Index end, Index k) {
    Coordinates order(static_cast<std::size_t>(end - begin));
    std::iota(order.begin(), order.end(), begin);
    const auto cut = order.begin() + k;
    if (cut != order.end())
        std::nth_element(order.begin(), cut, order.end(), [&c](Index a, Index b) {
            const auto score_a = score(c[a]);
            const auto score_b = score(c[b]);
            return score_a != score_b ? score_a > score_b : a < b;
        });
    order.erase(cut, order.end());
    std::sort(order.begin(), order.end());
    return order;
}

/// Section 4.3: for each segment its owner takes the k largest of its own c; all segments' coordinates
/// together.
template <class T>
Coordinates select_mask(const PerRank<T>& c, const problem::Problem& problem, double density) {
    Coordinates S;
    for (const problem::Segment& segment : problem.segments) {
        const Index k = problem::selected_count(segment, density, problem.settings.k_rounding);
        const Vector<T>& c_owner = c[static_cast<std::size_t>(segment.owner)];
        const Coordinates top = select_top(c_owner, segment.begin, segment.end, k);
        S.insert(S.end(), top.begin(), top.end());
    }
    return S;
}

} // namespace truestep::reference::scape
