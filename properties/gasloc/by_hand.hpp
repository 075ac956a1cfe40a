#pragma once

#include <vector>

#include "scenario.hpp"

// Sections 13 and 14 worked out a second time. It shares no arithmetic with the reference or the
// optimized workers, so it can show an error that both have in common.

namespace truestep::properties::gasloc::by_hand {

/// The graph of a round by the specification's text.
[[nodiscard]] Graph graph_of(const Settings& settings, Index round, int workers);

/// Which workers of round `last` a change at `worker` in round `first` can have reached.
[[nodiscard]] std::vector<bool> light_cone(const Scenario& scenario, int worker, Index first, Index last);

/// One worker's inner steps in a round, from its state at the beginning; theta becomes x.
struct Inner {
    std::vector<float> x;
    std::vector<float> m;
    std::vector<float> v;
    Index s = 0;
};
[[nodiscard]] Inner after_inner_steps(const Scenario& scenario, int worker, Index round, Inner begin);

/// The factor by which disagreement grows per round in the long run, without drift. It is followed round
/// after round; for random graphs its mean squares are. Not for an explicit graph.
[[nodiscard]] double growth(const Settings& settings, int workers);

/// Nesterov DiLoCo without any graph: the mean model of all workers after each round, times their number.
/// For sgd without decay, whose drift does not depend on the model. In double, so exact where the data is.
[[nodiscard]] std::vector<std::vector<double>> diloco(const Scenario& scenario);

} // namespace truestep::properties::gasloc::by_hand
