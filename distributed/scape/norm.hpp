#pragma once

#include <cstddef>
#include <vector>

#include <truestep/problem/problem.hpp>

namespace truestep::distributed::scape {

/// The norm's block sums, added by its version (section 5). Version 2 writes each pair's sum in
/// place of its first one, so that an odd last one moves up without being touched.
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
