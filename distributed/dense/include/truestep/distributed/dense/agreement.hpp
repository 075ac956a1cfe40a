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

/// All ranks call it before their first step, also one that cannot begin: `fault` says why. Throws
/// truestep::Error on all of them, with a line that names the rank, if one cannot or differs from rank
/// 0 in a setting or in `more`. Returns a number that only this beginning has.
Index agree_on(const Problem& problem, const Words& more, const std::string& fault, Communicator& ranks);

/// All ranks call it before a step, also one that cannot take it: `fault` says why. Returns whether
/// all have acceptable gradients. Throws truestep::Error on all of them, with a line that names the
/// rank, if one cannot take it or has other learning rates.
[[nodiscard]] bool agree_on_step(const Problem& problem, Index step, const std::vector<double>& rates,
                                 bool acceptable, const std::string& fault, Communicator& ranks);

} // namespace truestep::distributed::dense
