#pragma once

#include <cstddef>
#include <vector>

#include <truestep/problem/problem.hpp>

namespace truestep::distributed::scape {

/// The norm's block sums, added as its version says (section 5). Of version 2 each pair's sum stands where
/// its first one stood, so that an odd last one has moved up without being touched.
inline double sum_of_blocks(problem::NormVersion version, std::vector<double>& sums) {
    if (version == problem::NormVersion::ascending) {
        double total = 0.0;
        for (const double sum : sums)
            total += sum;
        return total;
    }
    for (std::size_t apart = 1; apart < sums.size(); apart *= 2)
        for (std::size_t at = 0; at + apart < sums.size(); at += 2 * apart)
            sums[at] += sums[at + apart];
    return sums.empty() ? 0.0 : sums.front();
}

} // namespace truestep::distributed::scape
