// The run that a case of GASLoC means.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <truestep/distributed/gasloc/state.hpp>

#include "case.hpp"

namespace truestep::properties::gasloc {

using namespace distributed::gasloc;

/// A whole run. Properties change parts of it.
struct Scenario {
    using Floats = std::vector<float>;

    Settings settings;
    int workers = 1;
    Index size = 1;
    Index rounds = 1;
    Floats start;
    /// The number H of inner steps of a worker in a round. Rounds and inner steps count from 1, workers
    /// from 0.
    std::function<Index(int worker, Index round)> steps;
    std::function<Floats(int worker, Index round, Index step)> gradient;
    std::function<double(Index round, Index step)> learning_rate;
    Index restart = 0;               ///< the round after which all begin from a checkpoint; 0: none
    int to = 0;                      ///< the number of workers after it
    Index given_up = 0;              ///< the round that each worker begins, gives up and restores; 0: none
    bool ended_first = false;        ///< it ends that round before it restores
    std::optional<Settings> again{}; ///< those with which all begin after the restart
    Index late = 0;
    int threads = 1;
    /// Called by a worker before it begins a round, unless it runs in another process.
    std::function<void(int worker, Index round)> before_round = [](int, Index) {};
    /// Called with each worker's state before the first round (as round 0) and after each, instead of
    /// recording it. Not for workers in another process.
    std::function<void(int worker, Index round, const State&)> watch{};
    /// The settings and the start of a worker, which may differ from the others'.
    std::function<Settings(int worker, Settings)> settings_of = [](int, Settings same) { return same; };
    std::function<Floats(int worker, Floats)> start_of = [](int, Floats same) { return same; };

    /// The number of workers in a round.
    [[nodiscard]] int workers_in(Index round) const {
        return restart > 0 && round > restart && to > 0 ? to : workers;
    }
    [[nodiscard]] Index most_steps(Index round) const;
    /// The gradients of one worker in one round.
    [[nodiscard]] std::vector<Floats> gradients(int worker, Index round) const;
    /// Whether one of them has a value that is not finite.
    [[nodiscard]] bool skips(int worker, Index round) const;
    [[nodiscard]] std::vector<double> learning_rates(Index round) const;
};

[[nodiscard]] Scenario scenario_of(const Case& run);

} // namespace truestep::properties::gasloc
