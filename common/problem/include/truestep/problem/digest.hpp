#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::problem {

/// A number that two descriptions have in common only if they are the same (but for chance, 1 in 2^64):
/// what ranks compare before they begin. The first densities stand for the schedule.
[[nodiscard]] std::uint64_t digest(const Problem& problem, const std::vector<Range>& ranges,
                                   const DensitySchedule& density);

/// What that number stands for, in words: the model, the settings and the schedule, without the partition.
[[nodiscard]] std::string model_text(const Problem& problem, const DensitySchedule& density);

/// The same for what stays when the number of workers changes: the model, the settings and the schedule.
[[nodiscard]] std::uint64_t model_digest(const Problem& problem, const DensitySchedule& density);

} // namespace truestep::problem
