#pragma once

#include <vector>

#include "scenario.hpp"

// Sections 13 and 14 a second time, in numbers and words of their own: what the reference and the optimized
// code have in common is not known here.

namespace truestep::properties::gasloc::by_hand {

/// The graph of a round, worked out from the chapter.
[[nodiscard]] Graph graph_of(const Settings& settings, Index round, int workers);

/// Which workers of round `last` a change at `worker` in round `first` can have reached.
[[nodiscard]] std::vector<bool> light_cone(const Scenario& scenario, int worker, Index first, Index last);

/// One worker's inner steps of a round, from a state at its begin; theta becomes x.
struct Inner {
    std::vector<float> x;
    std::vector<float> m;
    std::vector<float> v;
    Index s = 0;
};
[[nodiscard]] Inner after_inner_steps(const Scenario& scenario, int worker, Index round, Inner begin);

/// By what disagreement grows in a round in the long run, without drift: by following it round after round,
/// of graphs drawn anew its mean squares. Not of an explicit graph.
[[nodiscard]] double growth(const Settings& settings, int workers);

/// Nesterov DiLoCo, which knows no graph: the mean model of all workers after each round, times their
/// number, for sgd without decay, whose drifts do not depend on the model. In double: exact where the data
/// is.
[[nodiscard]] std::vector<std::vector<double>> diloco(const Scenario& scenario);

} // namespace truestep::properties::gasloc::by_hand
