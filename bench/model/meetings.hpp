#pragma once

#include <truestep/problem/gasloc/graph.hpp>

namespace truestep::model {

/// How many pairs of workers meet in a round of the law; for exponential, whose rounds differ, the
/// mean over its rounds. It uses section 14's table and builds no graph, so a million workers cost
/// nothing. Throws truestep::Error for a law that does not fit the number of workers, and for
/// `given`.
[[nodiscard]] double meetings(problem::gasloc::Law law, double workers);

} // namespace truestep::model
