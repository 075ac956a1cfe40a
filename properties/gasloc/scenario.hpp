#pragma once

#include <functional>
#include <string>
#include <vector>

#include <truestep/distributed/gasloc/state.hpp>

#include "case.hpp"

namespace truestep::properties::gasloc {

using namespace distributed::gasloc;

/// A whole run: what a case means. Properties change parts of it.
struct Scenario {
    using Floats = std::vector<float>;

    Settings settings;
    int workers = 1;
    Index size = 1;
    Index rounds = 1;
    Floats start;
    /// H of a worker in a round; rounds and inner steps count from 1, workers from 0.
    std::function<Index(int worker, Index round)> steps;
    std::function<Floats(int worker, Index round, Index step)> gradient;
    std::function<double(Index round, Index step)> learning_rate;
    Index restart = 0; ///< after this round, all from a checkpoint; 0: none
    int to = 0;        ///< with so many workers
    Index late = 0;
    int threads = 1;
    /// Called by a worker before it begins a round. Not where it is in another process.
    std::function<void(int worker, Index round)> before_round = [](int, Index) {};
    /// Shown what each worker has become, before the first round (as round 0) and after each, in place of
    /// its being kept. None: it is kept. Not where it is in another process.
    std::function<void(int worker, Index round, const State&)> watch{};
    /// What a worker is told that is not what the others are.
    std::function<Settings(int worker, Settings)> settings_of = [](int, Settings same) { return same; };
    std::function<Floats(int worker, Floats)> start_of = [](int, Floats same) { return same; };

    /// Of a round.
    [[nodiscard]] int workers_in(Index round) const {
        return restart > 0 && round > restart && to > 0 ? to : workers;
    }
    [[nodiscard]] Index most_steps(Index round) const;
    /// Of one worker in one round.
    [[nodiscard]] std::vector<Floats> gradients(int worker, Index round) const;
    [[nodiscard]] std::vector<double> learning_rates(Index round) const;
};

[[nodiscard]] Scenario scenario_of(const Case& run);

} // namespace truestep::properties::gasloc
