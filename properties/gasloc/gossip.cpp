// What gossip may do to workers that disagree, and to those that agree.
#include "family.hpp"

#include <algorithm>
#include <cmath>

#include <truestep/problem/text.hpp>

#include "by_hand.hpp"

namespace truestep::properties::gasloc {

namespace {

using Floats = std::vector<float>;

// 1. The sum of z is the sum of y. The next momentum is made of y; z is theta without momentum.
void mean_is_kept(Trial& trial) {
    trial.complete();
    const auto gamma = static_cast<double>(static_cast<float>(trial.run.gamma));
    for (Index round = 1; round <= trial.run.rounds; ++round)
        for (std::size_t i = 0; i < trial.scenario.start.size(); ++i) {
            double of_y = 0.0;
            double of_z = 0.0;
            for (int worker = 0; worker < trial.scenario.workers; ++worker) {
                const State& seen = trial.state(worker, round);
                const auto y = static_cast<double>(seen.before[i]);
                const auto before = static_cast<double>(
                    round == 1 ? trial.scenario.start[i] : trial.state(worker, round - 1).before[i]);
                of_y += y;
                of_z += static_cast<double>(seen.theta[i]) - gamma * (y - before);
            }
            trial.expect(of_y == of_z, round, [&] {
                return "after round " + std::to_string(round) +
                       " the sum of z over workers at coordinate " + std::to_string(i) + " is " +
                       shortest(of_z) + "; that of y is " + shortest(of_y);
            });
        }
}

// 2. A consensus without drift stays.
void consensus_stays(Trial& trial) {
    trial.scenario.steps = [](int, Index) { return Index{0}; };
    trial.complete();
    // -0 + 0 is +0, so with momentum a zero may lose its sign.
    const auto unsigned_zero = [](Floats values) {
        for (float& value : values)
            value += 0.0F;
        return values;
    };
    for (Index round = 1; round <= trial.run.rounds; ++round)
        for (int worker = 0; worker < trial.scenario.workers_in(round); ++worker)
            trial.same(unsigned_zero(trial.scenario.start), unsigned_zero(trial.state(worker, round).theta),
                       round, worker, "theta", "what all began with, though nothing has drifted");
}

// 15. Disagreement shrinks as the chapter's linear recursion says, computed in double.
void contraction(Trial& trial) {
    trial.complete();
    const auto n = static_cast<std::size_t>(trial.scenario.workers);
    Settings settings = trial.scenario.settings;
    for (double* const value : {&settings.alpha, &settings.gamma})
        *value = static_cast<double>(static_cast<float>(*value));
    std::vector<Graph> graphs; // from the second round on
    for (Index round = 2; round <= trial.run.rounds; ++round)
        graphs.push_back(by_hand::graph_of(trial.scenario.settings, round, trial.scenario.workers));
    for (std::size_t i = 0; i < trial.scenario.start.size(); ++i) {
        std::vector<double> theta(n);
        std::vector<double> before(n);
        double size = 0.0;
        for (std::size_t worker = 0; worker < n; ++worker) {
            theta[worker] = static_cast<double>(trial.lives[worker].rounds.at(1).state.theta[i]);
            before[worker] = static_cast<double>(trial.lives[worker].rounds.at(1).state.before[i]);
            size = std::max({size, std::abs(theta[worker]), std::abs(before[worker])});
        }
        for (Index round = 2; round <= trial.run.rounds; ++round) {
            by_hand::take_round_without_drift(theta, before, graphs[static_cast<std::size_t>(round - 2)],
                                              settings);
            for (std::size_t worker = 0; worker < n; ++worker) {
                size = std::max(size, std::abs(theta[worker]));
                const double seen =
                    static_cast<double>(trial.lives[worker].rounds.at(round).state.theta[i]);
                // Each round makes some ten roundings, each passed on at most as disagreement is in a
                // stable run.
                const double limit = 0x1p-24 * 40.0 * static_cast<double>(round) * size + 0x1p-140;
                trial.expect(!(std::abs(seen - theta[worker]) > limit), round, [&] {
                    return worker_text(static_cast<int>(worker), round) + " has " + shortest(seen) +
                           " at coordinate " + std::to_string(i) + "; without drift it would be " +
                           shortest(theta[worker]);
                });
            }
        }
    }
}

void drifts_once(Trial& trial) {
    trial.scenario.steps = [](int, Index round) { return round == 1 ? Index{1} : Index{0}; };
    contraction(trial);
}

/// One drift that makes workers part, then none. The run is stable and short enough to follow.
Case drifting_once(Case run) {
    run = without_restart(run);
    run.inner = Inner::sgd;
    run.data = problem::DataClass::normal;
    run.rounds = std::max<Index>(run.rounds, 3) * 2;
    run.steps = 1;
    run.uneven = 0;
    run.skip = 0;
    run.alpha = std::min(run.alpha, 0.5);
    run.gamma = std::min(run.gamma, 0.5);
    return run;
}

} // namespace

std::vector<gate::Property> gossip_properties() {
    return {property(1, "mean", "Gossip moves nothing but differences: the sum of z is the sum of y.",
                     mean_is_kept, meets(), exact_local),
            property(2, "consensus", "Workers that agree and do not drift stay as they are.",
                     consensus_stays, meets(), without_restart, exact),
            property(15, "contraction",
                     "Without drift disagreement becomes what the chapter's map makes of it.", drifts_once,
                     {"neighbours"}, drifting_once)};
}

} // namespace truestep::properties::gasloc
