// Numbers by which ranks and checkpoints compare whole problems.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::problem {

/// A number by which ranks compare their descriptions before they begin. Different descriptions
/// share it only by chance, 1 in 2^64. The first densities represent the schedule.
[[nodiscard]] std::uint64_t digest(const Problem& problem, const std::vector<Range>& ranges,
                                   const DensitySchedule& density);

/// The contents of `model_digest` in words: the model, the settings and the schedule, without the
/// partition.
[[nodiscard]] std::string model_text(const Problem& problem, const DensitySchedule& density);

/// A digest of what does not change with the number of workers: the model, the settings and the
/// schedule.
[[nodiscard]] std::uint64_t model_digest(const Problem& problem, const DensitySchedule& density);

} // namespace truestep::problem
