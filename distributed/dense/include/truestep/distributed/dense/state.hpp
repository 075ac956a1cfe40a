// The state of one rank between two steps.
#pragma once

#include <span>
#include <vector>

#include <truestep/distributed/dense/ownership.hpp>

namespace truestep::distributed::dense {

/// What a rank owns, packed in the order of its pieces. A checkpoint has a file of it for each rank.
struct State {
    Index steps = 0;      ///< taken so far; a skipped step does not count
    Index run = 0;        ///< drawn when the ranks began together; files of another beginning do not fit
    std::vector<float> w; ///< parameters, or their fp32 masters
    std::vector<float> m; ///< momentum, or the first moment; empty if no group has one
    std::vector<float> v; ///< the second moment; empty if no group has one

    void fields(auto& visit) { visit(steps, run, w, m, v); }
    friend bool operator==(const State&, const State&) = default;
};

/// The state with which a rank begins, from all parameters.
[[nodiscard]] State first_state(const Problem& problem, const Ownership& ownership, int rank,
                                std::span<const float> parameters);

} // namespace truestep::distributed::dense
