// Judges a case of GASLoC against the reference, at EXACT bit by bit and at REL by bounds.
#include "trial.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <truestep/reference/gasloc/reference.hpp>

#include <truestep/verify/compare_with_reference.hpp>

#include "recording.hpp"

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
    const reference::gasloc::Vector<Bounded>* const right[]{&expected.theta, &expected.before, &expected.m,
                                                            &expected.v};
    for (std::size_t i = 0; i < std::size(right); ++i)
        trial.same(verify::compare_with(*right[i], actual.*state_parts[i].values), round,
                   worker_text(worker, round) + ": " + state_parts[i].words +
                       " is not within the bound of what the round began with");
    trial.same_count(expected.s, actual.s, round, worker, "inner steps", "the reference's");
    trial.same_count(round, actual.rounds, round, worker, "rounds", "those that it has ended");
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
            if (lives[i].left_alone == 0 && reference.halted(static_cast<int>(i))) {
                lives[i].halted = round;
                lives[i].theta_after_halt = seen.state.theta;
            }
            ended[i] = lives[i].ended() > 0;
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
    : TrialOf(of, {{"x", of.size}}), scenario(scenario_of(of)),
      candidate(dynamic_cast<const Implementation&>(implementation)) {
    classify(judged, run, scenario);
}

gate::Finding::Size Trial::size(Index /*round*/) const {
    return {run.size, spec().most_workers(run), run.rounds};
}

gate::FindingOnDemand Trial::on_demand(Index round) const {
    return {[scenario = scenario, lives = lives, round] { return drawing_of(scenario, lives, round); },
            [scenario = scenario, lives = lives](const auto& path, const auto& source) {
                return record_lives(path, source, scenario, lives);
            },
            round};
}

void Trial::did_not_end(Index round, std::size_t worker, const RankRecording& life) {
    violated(round, "worker " + std::to_string(worker) + " did not end round " + std::to_string(round) +
                        ": " + life.why());
}

void Trial::complete() {
    lives = play(scenario);
    for (std::size_t i = 0; i < lives.size(); ++i)
        for (Index round = 1; round <= scenario.rounds; ++round)
            if (static_cast<int>(i) < scenario.workers_in(round) && !lives[i].rounds.contains(round)) {
                did_not_end(round, i, lives[i]);
                throw gate::Ended();
            }
}

void Trial::same(const Floats& expected, const Floats& actual, Index round, int worker,
                 const std::string& what, const std::string& whose) {
    same(verify::compare(expected, actual, verify::Level::exact()), round,
         worker_text(worker, round) + ": " + what + " is not " + whose);
}

void Trial::same_count(Index expected, Index actual, Index round, int worker, const std::string& of,
                       const std::string& whose) {
    if (expected != actual)
        violated(round, worker_text(worker, round) + " counts " + std::to_string(actual) + " " + of + "; " +
                            whose + " are " + std::to_string(expected));
}

void Trial::same_skip(bool skips, const RoundRecording& seen, Index round, int worker) {
    expect(skips == seen.skipped, round, [&] {
        return worker_text(worker, round) + (seen.skipped ? " says that it skipped the round"
                                                          : " does not say that it skipped the round");
    });
}

void Trial::same(const State& expected, const State& actual, Index round, int worker,
                 const std::string& whose) {
    for (const StatePart& part : state_parts)
        if (part.is_in(candidate.visible()))
            same(expected.*part.values, actual.*part.values, round, worker, part.words, whose);
    same_count(expected.s, actual.s, round, worker, "inner steps", whose);
    same_count(expected.rounds, actual.rounds, round, worker, "rounds", whose);
}

void Trial::same_states(const std::vector<RankRecording>& expected,
                        const std::vector<RankRecording>& actual, const std::string& whose) {
    for (std::size_t i = 0; i < expected.size(); ++i)
        for (const auto& [round, right] : expected[i].rounds)
            if (const auto found = actual[i].rounds.find(round); found != actual[i].rounds.end())
                same(right.state, found->second.state, round, static_cast<int>(i), whose);
}

namespace {

/// The same, but that one that is no number is as good as another.
Floats without_kinds(Floats values) {
    for (float& value : values)
        if (std::isnan(value))
            value = std::numeric_limits<float>::quiet_NaN();
    return values;
}

bool names_who_halted(const std::string& reason, const std::vector<RankRecording>& expected) {
    for (std::size_t rank = 0; rank < expected.size(); ++rank)
        if (expected[rank].halted > 0 &&
            reason.find("rank " + std::to_string(rank) + " has halted: ") != std::string::npos)
            return true;
    return false;
}

} // namespace

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
                same_skip(right->second.skipped, found->second, round, worker);
            } else if (right != wanted.rounds.end()) {
                did_not_end(round, i, life);
            }
            if (wanted.halted == round && life.halted == round && !life.theta_after_halt.empty())
                same(without_kinds(wanted.theta_after_halt), without_kinds(life.theta_after_halt), round,
                     worker, "theta of the round in which it halted", whose);
            if (wanted.halted == round && life.halted != round)
                violated(round, worker_text(worker, round) +
                                    " continues with a model that is not finite; it must halt");
            if (wanted.left_alone == round && life.left_alone != round)
                violated(round, "worker " + std::to_string(worker) + " ended round " +
                                    std::to_string(round) + " without the neighbour that has halted");
            else if (wanted.left_alone == round && candidate.names_differences() &&
                     !names_who_halted(life.reason, expected))
                violated(round, "worker " + std::to_string(worker) + ", left alone in round " +
                                    std::to_string(round) + ", is not told who has halted: " + life.reason);
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
                    return violated(round,
                                    "worker " + std::to_string(i) + " did not begin again: " + life.why());
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
                same_skip(went[i].skipped, found->second, round, worker);
                continue;
            }
            goes_on = false;
            if (expected.at(i).rounds.contains(round))
                did_not_end(round, i, actual[i]);
        }
    }
}

} // namespace truestep::properties::gasloc
