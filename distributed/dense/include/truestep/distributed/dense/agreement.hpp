// Holds what all ranks must have alike before the first step.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/dense/ownership.hpp>

namespace truestep::distributed::dense {

/// A setting's name and its value.
using Words = std::vector<std::pair<std::string, std::string>>;

/// The settings that must not change during a run, and by which checkpoints are compared. The number
/// of ranks and their micro-batches are missing.
[[nodiscard]] Words words_of(const Problem& problem);

/// Throws truestep::Error on all ranks, with the same line that names rank and setting, if a rank
/// differs from rank 0.
void agree_on(const Problem& problem, bool sharded, Index steps, Communicator& ranks);

} // namespace truestep::distributed::dense
