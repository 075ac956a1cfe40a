#pragma once

#include <truestep/problem/gasloc/graph.hpp>

namespace truestep::model {

/// How many pairs of workers meet in a round of the law; of exponential, whose rounds differ, the mean of
/// its rounds. From section 14's table alone: no graph is made, so that a million workers cost nothing.
/// Throws truestep::Error for a law that the number of workers does not have, and for `given`.
[[nodiscard]] double meetings(problem::gasloc::Law law, double workers);

} // namespace truestep::model
