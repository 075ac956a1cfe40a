#pragma once

#include <cstdint>
#include <vector>

#include <scape/distributed/scape.hpp>

namespace scape::distributed {

/// Throws scape::Error on all ranks unless all were given the same problem.
void agree_on_problem(Communicator& communicator, const problem::Problem& problem,
                      const std::vector<problem::Range>& ranges, const problem::DensitySchedule& density,
                      Reduction reduction);

/// Section 4.1: throws RefusedStep on all ranks if one has refused its gradient at `refused` < d. Returns
/// the bytes that this rank sent.
std::uint64_t agree_on_gradient(Communicator& communicator, const problem::Problem& problem, Index refused,
                                const float* gradient);

} // namespace scape::distributed
