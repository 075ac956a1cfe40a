#pragma once

#include <span>
#include <vector>

#include "scenario.hpp"

// Sections 13 and 14 worked out a second time. It shares no arithmetic with the reference or the
// optimized workers, so it can show an error that both have in common.

namespace truestep::properties::gasloc::by_hand {

/// The graph of a round by the specification's text.
[[nodiscard]] Graph graph_of(const Settings& settings, Index round, int workers);

/// Which workers of round `last` a change at `worker` in round `first` can have reached.
[[nodiscard]] std::vector<bool> light_cone(const Scenario& scenario, int worker, Index first, Index last);

/// Takes one inner step with everything but theta and the moments given: `counted` corrects the bias.
void take_inner_step(State& state, const Settings& settings, std::span<const float> gradient,
                     double learning_rate, double weight_decay, Index counted);
/// One worker's inner steps in a round, from its state at the beginning; theta becomes x.
[[nodiscard]] State after_inner_steps(const Scenario& scenario, int worker, Index round, State begin);

/// A round without drift of one coordinate, in double: the values of all workers, and what their momentum
/// is measured from.
void take_round_without_drift(std::vector<double>& theta, std::vector<double>& before, const Graph& graph,
                              const Settings& settings);

/// The factor by which disagreement grows per round in the long run, without drift. It is followed round
/// after round; for random graphs its mean squares are. Not for an explicit graph.
[[nodiscard]] double growth(const Settings& settings, int workers);

/// Nesterov DiLoCo without any graph: the mean model of all workers after each round, times their number.
/// For sgd without decay, whose drift does not depend on the model. In double, so exact where the data is.
[[nodiscard]] std::vector<std::vector<double>> diloco(const Scenario& scenario);

} // namespace truestep::properties::gasloc::by_hand
