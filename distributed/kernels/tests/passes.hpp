#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "kernel_support.hpp"

// Shared by the tests of all kernels. Each pass is compared with its definition, coordinate by
// coordinate with the functions of element.hpp, in every bit.

namespace truestep::distributed::host {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

using Pieces = std::vector<std::pair<Index, Index>>;

/// [0, size) at once, in single units, and in two parts, backwards.
inline std::vector<Pieces> splits(Index size, Index unit) {
    Pieces units;
    for (Index begin = 0; begin < size; begin += unit)
        units.emplace_back(begin, std::min(size, begin + unit));
    std::vector<Pieces> result{{{0, size}}, units};
    if (units.size() > 1)
        result.push_back({{unit, size}, {0, unit}});
    return result;
}

class KernelTest : public EachVariant {};

} // namespace truestep::distributed::host
