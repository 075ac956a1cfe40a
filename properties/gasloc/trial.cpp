// Judges a case of GASLoC against the reference, at EXACT bit by bit and at REL by bounds.
#include "trial.hpp"

#include <algorithm>
#include <utility>

#include <truestep/problem/layout.hpp>
#include <truestep/reference/gasloc/reference.hpp>

#include <truestep/verify/compare_with_reference.hpp>

#include "difference.hpp"

namespace truestep::properties::gasloc {

namespace {

using Floats = std::vector<float>;
using verify::Bounded;
using verify::to_vector;

Floats to_floats(const reference::gasloc::Vector<float>& values) {
    return {values.begin(), values.end()};
}

State to_state(const reference::gasloc::WorkerState<float>& worker, Index rounds) {
    return {rounds,
            worker.s,
            to_floats(worker.theta),
            to_floats(worker.before),
            to_floats(worker.m),
            to_floats(worker.v)};
}

/// The gradients of the workers that have not ended.
template <class T>
std::vector<reference::gasloc::Gradients<T>> gradients_of(const Scenario& scenario, Index round,
                                                          const std::vector<bool>& ended) {
    std::vector<reference::gasloc::Gradients<T>> all(ended.size());
    for (std::size_t worker = 0; worker < ended.size(); ++worker)
        if (!ended[worker])
            for (const Floats& gradient : scenario.gradients(static_cast<int>(worker), round))
                all[worker].push_back(to_vector<T>(gradient));
    return all;
}

/// The state that a worker showed at the beginning of a round, without any rounding.
reference::gasloc::WorkerState<Bounded> begun_by(const State& state) {
    reference::gasloc::WorkerState<Bounded> result;
    result.theta = to_vector<Bounded>(state.theta);
    result.before = to_vector<Bounded>(state.before);
    result.m = to_vector<Bounded>(state.m);
    result.v = to_vector<Bounded>(state.v);
    result.s = state.s;
    return result;
}

void classify(gate::JudgementOf<Case>& judged, const Case& run, const Scenario& scenario) {
    bool meets = false;
    bool several = false;
    bool idle = false;
    bool skips = false;
    bool without = false;
    for (Index round = 1; round <= run.rounds; ++round) {
        const Graph graph = graph_of(scenario.settings, round, scenario.workers_in(round));
        meets = meets || !graph.empty();
        for (int worker = 0; worker < scenario.workers_in(round); ++worker) {
            const std::size_t met = neighbours(graph, worker).size();
            several = several || met > 1;
            idle = idle || (met == 0 && !graph.empty());
            const Index steps = scenario.steps(worker, round);
            without = without || steps == 0;
            skips = skips || (round == run.skip && steps > 0);
        }
    }
    judged.kind(meets, "neighbours");
    judged.kind(several, "several neighbours");
    judged.kind(idle, "one that meets nobody");
    judged.kind(without, "no inner steps");
    judged.kind(skips, "skipped");
}

void near(Trial& trial, const reference::gasloc::WorkerState<Bounded>& expected, const State& actual,
          Index round, int worker) {
    const auto part = [&](const reference::gasloc::Vector<Bounded>& right, const Floats& values,
                          const char* what) {
        const auto compared = verify::compare_with(right, values);
        trial.add(compared);
        if (!compared.ok())
            trial.violated(
                round,
                worker_text(worker, round) + ": " + what +
                    " is not within the bound of what the round began with: " + verify::summary(compared),
                right.size() > 0
                    ? verify::details(compared, problem::Layout({{"x", right.size(), false}}), "  ")
                    : "");
    };
    part(expected.theta, actual.theta, "theta");
    part(expected.before, actual.before, "what goes into the momentum");
    part(expected.m, actual.m, "the first moment");
    part(expected.v, actual.v, "the second moment");
    if (expected.s != actual.s)
        trial.violated(round, worker_text(worker, round) + " counts " + std::to_string(actual.s) +
                                  " inner steps; the reference's are " + std::to_string(expected.s));
    if (actual.rounds != round)
        trial.violated(round, worker_text(worker, round) + " counts " + std::to_string(actual.rounds) +
                                  " rounds; it has ended " + std::to_string(round));
}

} // namespace

std::vector<RankRecording> expected_lives(const Scenario& scenario) {
    reference::gasloc::Reference<float> reference(scenario.settings, scenario.workers,
                                                  to_vector<float>(scenario.start));
    std::vector<RankRecording> lives(static_cast<std::size_t>(std::max(scenario.workers, scenario.to)));
    std::vector<bool> ended(reference.state.size(), false);
    const std::uint64_t bytes = 4 * static_cast<std::uint64_t>(scenario.size);
    if (scenario.watch)
        for (std::size_t i = 0; i < reference.state.size(); ++i)
            scenario.watch(static_cast<int>(i), 0, to_state(reference.state[i], 0));
    for (Index round = 1; round <= scenario.rounds; ++round) {
        if (scenario.restart > 0 && round == scenario.restart + 1) {
            if (std::find(ended.begin(), ended.end(), true) != ended.end())
                break;
            reference.state =
                reference::gasloc::redistribute(std::move(reference.state), scenario.workers_in(round));
            ended.assign(reference.state.size(), false);
            for (std::size_t i = 0; i < reference.state.size(); ++i) {
                lives[i].begun = to_state(reference.state[i], round - 1);
                lives[i].restarted = true;
            }
        }
        const Graph graph = graph_of(scenario.settings, round, static_cast<int>(reference.state.size()));
        const auto went = reference.round(gradients_of<float>(scenario, round, ended),
                                          scenario.learning_rates(round), graph);
        const std::vector<bool> before = ended;
        for (std::size_t i = 0; i < reference.state.size(); ++i) {
            if (before[i])
                continue;
            RoundRecording seen{to_state(reference.state[i], round), went[i].skipped, {}};
            for (const Neighbour& neighbour : neighbours(graph, static_cast<int>(i))) {
                if (before[static_cast<std::size_t>(neighbour.worker)])
                    lives[i].left_alone = round;
                if (bytes > 0)
                    seen.sent[neighbour.worker] = bytes;
            }
            // A worker that was left alone does not get as far as halting.
            if (lives[i].left_alone == 0 && reference.halted(static_cast<int>(i)))
                lives[i].halted = round;
            ended[i] = lives[i].left_alone > 0 || lives[i].halted > 0;
            if (ended[i])
                continue;
            if (scenario.watch)
                scenario.watch(static_cast<int>(i), round, seen.state);
            else
                lives[i].rounds[round] = std::move(seen);
        }
    }
    return lives;
}

std::string worker_text(int worker, Index round) {
    return "worker " + std::to_string(worker) + " after round " + std::to_string(round);
}

Trial::Trial(const gate::Implementation& implementation, const Case& of)
    : run(of), scenario(scenario_of(of)), candidate(dynamic_cast<const Implementation&>(implementation)),
      judged(run) {
    classify(judged, run, scenario);
}

void Trial::violated(Index round, const std::string& message, const std::string& details) {
    if (!judged.finding)
        judged.finding = difference(message, details, run, scenario, lives, round);
}

void Trial::add(const verify::Comparison& compared) {
    judged.counts.add(
        {compared.compared, compared.mismatched, compared.greatest_ulps, compared.share_of_limit});
}

bool Trial::same(const Floats& expected, const Floats& actual, Index round, int worker,
                 const std::string& what, const std::string& whose) {
    const auto compared = verify::compare(expected, actual, verify::Level::exact());
    add(compared);
    if (compared.ok())
        return true;
    const auto size = static_cast<Index>(expected.size());
    violated(round,
             worker_text(worker, round) + ": " + what + " is not " + whose + ": " +
                 verify::summary(compared),
             size > 0 ? verify::details(compared, problem::Layout({{"x", size, false}}), "  ") : "");
    return false;
}

void Trial::same(const State& expected, const State& actual, Index round, int worker,
                 const std::string& whose) {
    const VisibleState visible = candidate.visible();
    same(expected.theta, actual.theta, round, worker, "theta", whose);
    if (visible.before)
        same(expected.before, actual.before, round, worker, "what goes into the momentum", whose);
    if (visible.first_moment)
        same(expected.m, actual.m, round, worker, "the first moment", whose);
    if (visible.second_moment)
        same(expected.v, actual.v, round, worker, "the second moment", whose);
    if (expected.s != actual.s)
        violated(round, worker_text(worker, round) + " counts " + std::to_string(actual.s) +
                            " inner steps; " + whose + " are " + std::to_string(expected.s));
    if (expected.rounds != actual.rounds)
        violated(round, worker_text(worker, round) + " counts " + std::to_string(actual.rounds) +
                            " rounds; " + whose + " are " + std::to_string(expected.rounds));
}

void Trial::same(const std::vector<RankRecording>& expected, const std::vector<RankRecording>& actual,
                 const std::string& whose) {
    // Goes round by round, so that the first difference reported is the earliest.
    for (Index round = 1; round <= scenario.rounds; ++round)
        for (std::size_t i = 0; i < expected.size() && i < actual.size(); ++i) {
            const int worker = static_cast<int>(i);
            const RankRecording& wanted = expected[i];
            const RankRecording& life = actual[i];
            if (round == scenario.restart + 1 && wanted.restarted && life.restarted)
                same(wanted.begun, life.begun, round - 1, worker, whose + " after the restart");
            const auto right = wanted.rounds.find(round);
            const auto found = life.rounds.find(round);
            if (right != wanted.rounds.end() && found != life.rounds.end()) {
                same(right->second.state, found->second.state, round, worker, whose);
                if (right->second.skipped != found->second.skipped)
                    violated(round,
                             worker_text(worker, round) +
                                 (found->second.skipped ? " says that it skipped the round"
                                                        : " does not say that it skipped the round"));
            } else if (right != wanted.rounds.end()) {
                violated(round, "worker " + std::to_string(worker) + " did not end round " +
                                    std::to_string(round) + ": " +
                                    (life.refused.empty() ? life.reason : life.refused));
            }
            if (wanted.halted == round && life.halted != round)
                violated(round, worker_text(worker, round) +
                                    " continues with a model that is not finite; it must halt");
            if (wanted.left_alone == round && life.left_alone != round)
                violated(round, "worker " + std::to_string(worker) + " ended round " +
                                    std::to_string(round) + " without the neighbour that has halted");
        }
    if (actual.size() != expected.size())
        violated(scenario.rounds, std::to_string(actual.size()) + " workers were seen, not " +
                                      std::to_string(expected.size()));
}

void Trial::as_the_reference(const std::vector<RankRecording>& actual) {
    if (is_exact())
        same(expected_lives(scenario), actual, "the reference's");
    else
        within_bounds(expected_lives(scenario), actual);
}

/// Compares each round with its bounds, up to one that a worker rightly does not complete.
void Trial::within_bounds(const std::vector<RankRecording>& expected,
                          const std::vector<RankRecording>& actual) {
    reference::gasloc::Reference<Bounded> reference(scenario.settings, scenario.workers,
                                                    to_vector<Bounded>(scenario.start));
    bool goes_on = true;
    for (Index round = 1; round <= scenario.rounds && goes_on; ++round) {
        const int workers = scenario.workers_in(round);
        if (scenario.restart > 0 && round == scenario.restart + 1)
            reference.state.resize(static_cast<std::size_t>(workers));
        if (round > 1)
            for (std::size_t i = 0; i < reference.state.size(); ++i) {
                const RankRecording& life = actual.at(i);
                const bool begins = round == scenario.restart + 1 && life.restarted;
                if (!begins && !life.rounds.contains(round - 1))
                    return violated(round, "worker " + std::to_string(i) + " did not begin again: " +
                                               (life.refused.empty() ? life.reason : life.refused));
                reference.state[i] = begun_by(begins ? life.begun : life.rounds.at(round - 1).state);
            }
        const std::vector<bool> nobody(reference.state.size(), false);
        const auto went =
            reference.round(gradients_of<Bounded>(scenario, round, nobody), scenario.learning_rates(round),
                            graph_of(scenario.settings, round, workers));
        for (std::size_t i = 0; i < reference.state.size(); ++i) {
            const int worker = static_cast<int>(i);
            const auto found = actual.at(i).rounds.find(round);
            if (found != actual[i].rounds.end()) {
                near(*this, reference.state[i], found->second.state, round, worker);
                if (went[i].skipped != found->second.skipped)
                    violated(round,
                             worker_text(worker, round) +
                                 (found->second.skipped ? " says that it skipped the round"
                                                        : " does not say that it skipped the round"));
                continue;
            }
            goes_on = false;
            if (expected.at(i).rounds.contains(round))
                violated(round, "worker " + std::to_string(worker) + " did not end round " +
                                    std::to_string(round) + ": " +
                                    (actual[i].refused.empty() ? actual[i].reason : actual[i].refused));
        }
    }
}

bool Trial::whole(const std::vector<RankRecording>& played) {
    for (std::size_t i = 0; i < played.size(); ++i)
        for (Index round = 1; round <= scenario.rounds; ++round)
            if (static_cast<int>(i) < scenario.workers_in(round) && !played[i].rounds.contains(round)) {
                violated(round, "worker " + std::to_string(i) + " did not end round " +
                                    std::to_string(round) + ": " +
                                    (played[i].refused.empty() ? played[i].reason : played[i].refused));
                return false;
            }
    return true;
}

} // namespace truestep::properties::gasloc
