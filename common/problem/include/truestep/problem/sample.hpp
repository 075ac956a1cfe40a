#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <truestep/problem/problem.hpp>

/// Some whole segments of a model: a step treats each segment independently of the others, except
/// for the norm.
namespace truestep::problem {

/// The indices of segments, ascending.
using Sample = std::vector<std::size_t>;

/// Chooses the segments that `text` describes:
///     0.001      at most that share of the coordinates (at least the smallest segment), by seed 1
///     0.001:7    the same by seed 7
///     wq,norm    all segments of these tensors
///     wq@5000    the segment that holds the tensor's index 5000
/// The same problem and text give the same sample everywhere. Throws truestep::Error.
[[nodiscard]] Sample choose_sample(const Problem& problem, const std::string& text);

/// Throws truestep::Error unless the indices ascend and name segments of the problem.
void check(const Sample& sample, const Problem& problem);

/// The coordinates of the sample's segments.
[[nodiscard]] std::vector<Range> ranges_of(const Sample& sample, const Problem& problem);

/// Text such as "wq, index 0 to 24999; norm", with at most `most` entries. A tensor that is wholly
/// in the sample appears by its name.
[[nodiscard]] std::string describe(const Sample& sample, const Problem& problem, std::size_t most = 4);

} // namespace truestep::problem
