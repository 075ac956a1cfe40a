// What GASLoC becomes without gossip and with full averaging: its inner optimizer, and DiLoCo.
#include "family.hpp"

#include <cmath>

#include <truestep/problem/text.hpp>

#include "by_hand.hpp"

namespace truestep::properties::gasloc {

namespace {

using Floats = std::vector<float>;

// 4. With eta = 1, gamma = 0 and alpha = 0 only the inner optimizer is left, except for theta + (x -
// theta).
void inner_optimizer(Trial& trial) {
    Settings& settings = trial.scenario.settings;
    settings.eta = 1.0;
    settings.gamma = 0.0;
    settings.alpha = 0.0;
    trial.lives = trial.play(trial.scenario);
    if (!trial.is_exact())
        return trial.as_the_reference(trial.lives);
    for (int worker = 0; worker < trial.scenario.workers; ++worker) {
        State now = first_state(settings, trial.scenario.start);
        for (const auto& entry : trial.lives[static_cast<std::size_t>(worker)].rounds) {
            const Index round = entry.first;
            const RoundRecording& seen = entry.second;
            const Floats theta = now.theta;
            now = by_hand::after_inner_steps(trial.scenario, worker, round, now);
            trial.same(now.m, seen.state.m, round, worker, "the first moment", "the inner optimizer's");
            trial.same(now.v, seen.state.v, round, worker, "the second moment", "the inner optimizer's");
            trial.same_count(now.s, seen.state.s, round, worker, "inner steps", "the inner optimizer's");
            for (std::size_t i = 0; i < theta.size(); ++i) {
                // There are two roundings: of x - theta, and of the sum.
                const double x = static_cast<double>(now.theta[i]);
                const double limit =
                    0x1p-23 * (std::abs(x) + std::abs(static_cast<double>(theta[i]))) + 0x1p-148;
                trial.expect(!(std::abs(static_cast<double>(seen.state.theta[i]) - x) > limit), round, [&] {
                    return worker_text(worker, round) + " has " + shortest(seen.state.theta[i]) +
                           " at coordinate " + std::to_string(i) + "; the inner optimizer makes it " +
                           shortest(now.theta[i]);
                });
            }
            now.theta = seen.state.theta;
        }
    }
}

void sums_are_dilocos(Trial& trial) {
    const auto sums = by_hand::diloco(trial.scenario);
    for (Index round = 1; round <= trial.run.rounds; ++round)
        for (std::size_t i = 0; i < trial.scenario.start.size(); ++i) {
            double sum = 0.0;
            for (int worker = 0; worker < trial.scenario.workers; ++worker)
                sum += static_cast<double>(trial.state(worker, round).theta[i]);
            const double wanted = sums[static_cast<std::size_t>(round - 1)][i];
            trial.expect(sum == wanted, round, [&] {
                return "after round " + std::to_string(round) +
                       " the sum of theta over workers at coordinate " + std::to_string(i) + " is " +
                       shortest(sum) + "; DiLoCo's is " + shortest(wanted);
            });
        }
}

// 5. The mean over workers is DiLoCo's for any graph.
void mean_is_dilocos(Trial& trial) {
    trial.complete();
    sums_are_dilocos(trial);
}

// 6. With full averaging and gossiped placement all workers are alike and equal DiLoCo.
void full_averaging(Trial& trial) {
    trial.complete();
    for (Index round = 1; round <= trial.run.rounds; ++round)
        for (int worker = 1; worker < trial.scenario.workers; ++worker)
            trial.same(trial.state(0, round).theta, trial.state(worker, round).theta, round, worker,
                       "theta", "worker 0's");
    sums_are_dilocos(trial);
}

Case fully_averaged(Case run) {
    run.law = Law::complete;
    run.momentum = Momentum::gossiped;
    run.alpha = 1.0;
    return exact(run);
}

} // namespace

std::vector<gate::Property> diloco_properties() {
    return {property(4, "inner", "eta = 1, gamma = 0, alpha = 0: the inner optimizer.", inner_optimizer,
                     {"adaptive", "several inner steps"}, without_restart),
            property(5, "diloco.mean", "The mean over workers is Nesterov DiLoCo's, on any graph.",
                     mean_is_dilocos, meets(), exact_local),
            property(6, "diloco.full", "Full averaging with gossiped momentum is DiLoCo on every worker.",
                     full_averaging, {"neighbours"}, fully_averaged)};
}

} // namespace truestep::properties::gasloc
