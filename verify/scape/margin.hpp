#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/verify/bounded.hpp>
#include <truestep/verify/replicas.hpp>
#include <truestep/verify/results.hpp>

namespace truestep::verify {

/// How clear a choice was that a recorded mask made otherwise, in the segment of coordinate `index`: the
/// least score that it should have taken and left, beside the greatest that it took and should have left,
/// and how far they are apart: in ULPs at EXACT, over the bound on their errors elsewhere. One line; ""
/// where it took another number of them, so that no two scores compete. Coordinates are told by their place
/// in the whole model.
[[nodiscard]] std::string margin(const problem::Problem& problem, const PerRank<float>& c,
                                 const Coordinates& right, const std::vector<std::uint8_t>& recorded,
                                 Index index);
template <class Format>
[[nodiscard]] std::string margin(const problem::Problem& problem, const PerRank<BoundedIn<Format>>& c,
                                 const Coordinates& right, const std::vector<std::uint8_t>& recorded,
                                 Index index);

/// Each of the findings on a mask that has gone another way says whether the choice was a close one.
template <class T>
void tell_margin(std::vector<Finding>& findings, const problem::Problem& problem, const PerRank<T>& c,
                 const Coordinates& right, const std::vector<std::uint8_t>& recorded) {
    for (Finding& finding : findings) {
        if (finding.comparison.first.empty() || finding.between_ranks)
            continue;
        const std::string told =
            margin(problem, c, right, recorded, finding.comparison.first.front().index);
        finding.note += (finding.note.empty() || told.empty() ? "" : "; ") + told;
    }
}

} // namespace truestep::verify
