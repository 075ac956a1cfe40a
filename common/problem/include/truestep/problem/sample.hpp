#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <truestep/problem/problem.hpp>

/// Some segments of a model in full: what a step does to a segment hangs on no other, but for the norm.
namespace truestep::problem {

/// Numbers of segments, ascending.
using Sample = std::vector<std::size_t>;

/// What `text` asks for:
///     0.001           at most that share of the coordinates (at least the smallest segment), drawn by seed
///     1; 0.001:7         by seed 7 wq,norm         all segments of these tensors wq@5000         the one
///     that holds the tensor's index 5000
/// The same problem and text give the same sample everywhere. Throws truestep::Error.
[[nodiscard]] Sample choose_sample(const Problem& problem, const std::string& text);

/// Throws truestep::Error unless they ascend and are segments of the problem.
void check(const Sample& sample, const Problem& problem);

/// Where they are.
[[nodiscard]] std::vector<Range> ranges_of(const Sample& sample, const Problem& problem);

/// "wq, index 0 to 24999; norm", of at most so many; of a tensor that is there in full its name.
[[nodiscard]] std::string describe(const Sample& sample, const Problem& problem, std::size_t most = 4);

} // namespace truestep::problem
