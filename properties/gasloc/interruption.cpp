// Properties of a skipped round and of a restart.
#include "family.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <truestep/gate/changed_setting.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::properties::gasloc {

namespace {

using Floats = std::vector<float>;

// 13. A skipped round is a round without inner steps.
void skipped(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    Scenario without = trial.scenario;
    without.steps = [scenario = trial.scenario](int worker, Index round) {
        return scenario.skips(worker, round) ? Index{0} : scenario.steps(worker, round);
    };
    // The other workers keep their learning rates.
    const std::vector<RankRecording> lives = trial.play(without);
    trial.same_states(lives, trial.lives, "those without inner steps in the skipped round");
    for (std::size_t i = 0; i < lives.size(); ++i)
        for (const auto& [round, seen] : trial.lives[i].rounds) {
            const int worker = static_cast<int>(i);
            const bool bad = without.steps(worker, round) != trial.scenario.steps(worker, round);
            trial.same_skip(bad, seen, round, worker);
        }
}

// 14. A restart with as many workers changes no bit.
void restart_same(Trial& trial) {
    Scenario going_on = trial.scenario;
    going_on.restart = 0;
    const std::vector<RankRecording> lives = trial.play(going_on);
    trial.lives = trial.play(trial.scenario);
    trial.same_states(lives, trial.lives, "those of a run without a restart");
    for (std::size_t i = 0; i < lives.size(); ++i) {
        const RankRecording& life = trial.lives[i];
        for (const auto& entry : lives[i].rounds) {
            const Index round = entry.first;
            if (life.rounds.contains(round))
                continue;
            if (round <= trial.scenario.restart || life.restarted)
                trial.expect(false, round, [&] {
                    return "worker " + std::to_string(i) + " did not end round " + std::to_string(round) +
                           " after the restart: " + life.reason;
                });
            else if (!life.refused.empty())
                trial.expect(false, round, "the restart was refused: " + life.refused);
        }
    }
}

// 14. Workers that restore within a round, or when it has ended, take it as if they had just begun.
void restored_within(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    Scenario interrupted = trial.scenario;
    interrupted.given_up = 1 + trial.run.seed % trial.scenario.rounds;
    interrupted.ended_first = trial.run.seed / 2 % 2 == 0;
    trial.judged.kind(interrupted.ended_first, "a whole round is undone");
    if (any_ended(trial.lives)) // all must be there to restore
        return;
    const std::vector<RankRecording> lives = trial.play(interrupted);
    trial.same(trial.lives, lives,
               "those without a restore " +
                   std::string(interrupted.ended_first ? "that undoes" : "within") + " round " +
                   std::to_string(interrupted.given_up));
    for (std::size_t i = 0; i < lives.size(); ++i)
        trial.expect(lives[i].taken.empty(), interrupted.given_up,
                     [&] { return "worker " + std::to_string(i) + " takes " + lives[i].taken; });
}

// 14. A checkpoint of a run with another setting is refused by all workers, unless it may follow a
// schedule.
void other_settings(Trial& trial) {
    const std::set<std::string> scheduled{"alpha", "gamma", "eta", "weight_decay", "allow_unstable"};
    const auto number = static_cast<std::size_t>(trial.run.seed);
    trial.scenario.settings.allow_unstable = true;
    Settings settings = trial.scenario.settings;
    for (const std::string& name : scheduled)
        gate::change_setting(settings, name);
    settings.allow_unstable = true;
    // In some cases only what may follow a schedule differs.
    const bool fits = trial.run.size % 4 == 3 && trial.candidate.names_differences();
    const std::string name = fits ? "" : gate::change_one_setting(settings, number, scheduled);
    trial.scenario.again = settings;
    const std::vector<RankRecording> lives = trial.play(trial.scenario);
    if (any_ended(lives)) // it saves nothing
        return;
    for (std::size_t i = 0; i < lives.size(); ++i) {
        const std::string& refused = lives[i].refused;
        if (fits) {
            trial.expect(lives[i].restarted, trial.scenario.restart, [&] {
                return "worker " + std::to_string(i) +
                       " does not begin again with settings that may follow a schedule: " + refused;
            });
            continue;
        }
        trial.expect(!lives[i].restarted && refused.find(name) != std::string::npos &&
                         refused.find('\n') == std::string::npos,
                     trial.scenario.restart, [&] {
                         return "worker " + std::to_string(i) +
                                (lives[i].restarted ? " begins again"
                                                    : " does not name it in one line: " + refused) +
                                ", although the checkpoint is of a run with another " + name;
                     });
    }
}

/// Two sums in different orders differ by at most one rounding of the sum of magnitudes for each worker.
void near_the_mean(Trial& trial, const State& mean, const State& begun, int worker) {
    const Index at = trial.scenario.restart;
    trial.expect(mean.s == begun.s && mean.rounds == begun.rounds, at, [&] {
        return "worker " + std::to_string(worker) + " begins again with " + std::to_string(begun.s) +
               " inner steps and " + std::to_string(begun.rounds) + " rounds; the most of any worker are " +
               std::to_string(mean.s) + " and " + std::to_string(mean.rounds);
    });
    for (const auto part : {&State::theta, &State::before, &State::m, &State::v}) {
        trial.expect((mean.*part).size() == (begun.*part).size(), at,
                     [&] { return "worker " + std::to_string(worker) + " begins again with other sizes"; });
        for (std::size_t i = 0; i < std::min((mean.*part).size(), (begun.*part).size()); ++i) {
            double magnitude = 0.0;
            for (int old = 0; old < trial.scenario.workers; ++old)
                magnitude += std::abs(static_cast<double>((trial.state(old, at).*part)[i]));
            const auto right = static_cast<double>((mean.*part)[i]);
            const auto seen = static_cast<double>((begun.*part)[i]);
            const double limit = 0x1.8p-23 * magnitude + 0x1p-148;
            trial.expect(!(std::abs(seen - right) > limit), at, [&] {
                return "worker " + std::to_string(worker) + " begins again with " + shortest(seen) +
                       " at coordinate " + std::to_string(i) + "; the mean of all workers is " +
                       shortest(right);
            });
        }
    }
}

// 14. With another number of workers all begin with the mean.
void restart_other(Trial& trial) {
    if (!trial.candidate.takes(trial.scenario.to))
        return;
    trial.lives = trial.play(trial.scenario);
    const Index at = trial.scenario.restart;
    const int workers = trial.scenario.workers;
    for (int worker = 0; worker < workers; ++worker)
        if (!trial.lives[static_cast<std::size_t>(worker)].rounds.contains(at))
            return;
    State mean = trial.state(0, at);
    for (const auto part : {&State::theta, &State::before, &State::m, &State::v})
        for (std::size_t i = 0; i < (mean.*part).size(); ++i) {
            float sum = (mean.*part)[i];
            for (int worker = 1; worker < workers; ++worker)
                sum += (trial.state(worker, at).*part)[i];
            (mean.*part)[i] = sum / static_cast<float>(workers);
        }
    const auto is_finite = [](const Floats& values) {
        return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    };
    // The sum of finite parameters may overflow; a worker with others should have halted.
    bool finite = is_finite(mean.theta);
    for (int worker = 0; worker < workers; ++worker) {
        mean.s = std::max(mean.s, trial.state(worker, at).s);
        finite = finite || !is_finite(trial.state(worker, at).theta);
    }
    for (int worker = 0; worker < trial.scenario.to; ++worker) {
        const RankRecording& life = trial.lives[static_cast<std::size_t>(worker)];
        trial.expect(life.restarted == finite, at, [&] {
            return "worker " + std::to_string(worker) +
                   (finite ? " did not begin again: " + life.refused
                           : " begins again, although the sum over workers is not finite");
        });
        if (life.restarted && trial.is_exact())
            trial.same(mean, life.begun, at, worker, "the mean of all workers before the restart");
        if (life.restarted && !trial.is_exact())
            near_the_mean(trial, mean, life.begun, worker);
    }
}

Case with_a_bad_gradient(Case run) {
    run = without_restart(run);
    run.skip = 1 + run.seed % run.rounds;
    run.steps = std::max<Index>(1, run.steps);
    return run;
}

Case restarted(Case run) {
    run.rounds = std::max<Index>(2, run.rounds);
    run.restart = 1 + run.seed % (run.rounds - 1);
    run.to = 0;
    return run;
}

Case restarted_with_others(Case run) {
    run = restarted(run);
    // Takes fewer workers where there are several: they are available under mpirun, and any law allows
    // them.
    run.to = run.workers > 2 || run.workers == 1 ? 2 : 1;
    return run;
}

} // namespace

std::vector<gate::Property> interruption_properties() {
    return {
        property(13, "skipped", "A round with a gradient that is not finite is one without inner steps.",
                 skipped, {"skipped"}, with_a_bad_gradient),
        property(14, "restart.same", "A restart with as many workers changes no bit.", restart_same,
                 {"restart"}, restarted),
        property(14, "restart.other", "With another number of workers all begin with the mean.",
                 restart_other, {"other number of ranks"}, restarted_with_others),
        property(14, "restart.settings",
                 "A checkpoint of other settings is refused, unless they may follow a schedule.",
                 other_settings, {"restart"}, restarted),
        property(14, "restore",
                 "A worker that restores within a round, or after it, takes it as if it had begun.",
                 restored_within, {"several ranks", "adaptive", {"skipped", 10}, "a whole round is undone"},
                 without_restart)};
}

} // namespace truestep::properties::gasloc
