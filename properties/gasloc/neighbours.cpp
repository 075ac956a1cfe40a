// Properties of who depends on whom: what a worker does and sends reaches its neighbours, and in time
// theirs.
#include "family.hpp"

#include <algorithm>

#include "by_hand.hpp"

namespace truestep::properties::gasloc {

namespace {

using Floats = std::vector<float>;

/// One worker of a scenario without the others.
Scenario alone(const Scenario& scenario, int worker) {
    Scenario one = scenario;
    one.workers = 1;
    one.settings.law = Law::none;
    one.steps = [scenario, worker](int, Index round) { return scenario.steps(worker, round); };
    one.gradient = [scenario, worker](int, Index round, Index step) {
        return scenario.gradient(worker, round, step);
    };
    return one;
}

// 3. With alpha = 0 or without edges the workers are independent runs.
void independent(Trial& trial) {
    if (trial.scenario.settings.law != Law::none) {
        trial.scenario.settings.alpha = 0.0;
        for (float& value : trial.scenario.start)
            value += 0.0F; // -0 less a product that is 0 may be +0
    }
    trial.lives = trial.play(trial.scenario);
    for (int worker = 0; worker < trial.scenario.workers; ++worker) {
        const RankRecording one = trial.play(alone(trial.scenario, worker)).front();
        for (const auto& [round, seen] : trial.lives[static_cast<std::size_t>(worker)].rounds)
            if (const auto found = one.rounds.find(round); found != one.rounds.end())
                trial.same(found->second.state, seen.state, round, worker,
                           "those of the same worker by itself");
    }
}

// 7. A change at one worker reaches those along the edges, and no others.
void light_cone(Trial& trial) {
    Scenario& scenario = trial.scenario;
    const auto seed = static_cast<Index>(scenario.settings.seed);
    const int source = static_cast<int>(seed % scenario.workers);
    const Index from = 1 + seed % scenario.rounds;
    scenario.steps = [steps = scenario.steps, source, from](int worker, Index round) {
        return worker == source && round == from ? std::max<Index>(1, steps(worker, round))
                                                 : steps(worker, round);
    };
    trial.lives = trial.play(scenario);
    Scenario changed = scenario;
    changed.gradient = [gradient = scenario.gradient, source, from](int worker, Index round, Index step) {
        Floats values = gradient(worker, round, step);
        if (worker == source && round == from)
            for (float& value : values)
                value = value == 0.5F ? 1.0F : 0.5F;
        return values;
    };
    const std::vector<RankRecording> other = trial.play(changed);
    for (Index round = 1; round <= scenario.rounds; ++round) {
        const std::vector<bool> reached =
            round < from ? std::vector<bool>(static_cast<std::size_t>(scenario.workers))
                         : by_hand::light_cone(scenario, source, from, round);
        for (int worker = 0; worker < scenario.workers; ++worker) {
            const auto i = static_cast<std::size_t>(worker);
            if (reached[i])
                continue;
            const auto& first = trial.lives[i].rounds;
            const auto& second = other[i].rounds;
            trial.expect(first.contains(round) == second.contains(round), round, [&] {
                return "worker " + std::to_string(worker) + " ends round " + std::to_string(round) +
                       " or not by what worker " + std::to_string(source) +
                       " does, which cannot be known there";
            });
            if (first.contains(round) && second.contains(round))
                trial.same(first.at(round).state, second.at(round).state, round, worker,
                           "what it was before a gradient of worker " + std::to_string(source) +
                               " changed, which cannot be known there");
        }
    }
}

// 8. Workers with permuted numbers have the same results, permuted.
void relabelled(Trial& trial) {
    Scenario& scenario = trial.scenario;
    const int last = scenario.workers - 1;
    for (Index round = 1; round <= scenario.rounds; ++round)
        scenario.settings.given.push_back(by_hand::graph_of(scenario.settings, round, scenario.workers));
    scenario.settings.law = Law::given;
    Scenario other = scenario;
    for (Graph& graph : other.settings.given) {
        for (Edge& edge : graph)
            edge = {last - edge.b, last - edge.a, edge.weight};
        graph = checked(graph, scenario.workers, "relabelled");
    }
    other.steps = [scenario, last](int worker, Index round) {
        return scenario.steps(last - worker, round);
    };
    other.gradient = [scenario, last](int worker, Index round, Index step) {
        return scenario.gradient(last - worker, round, step);
    };
    trial.lives = trial.play(scenario);
    std::vector<RankRecording> lives = trial.play(other);
    std::reverse(lives.begin(), lives.end());
    trial.same_states(lives, trial.lives, "those under another number");
}

/// At most two neighbours, because sums of three or more depend on the order.
Case few_neighbours(Case run) {
    run = without_restart(run);
    if (run.law == Law::complete || run.law == Law::given || run.law == Law::hypercube)
        run.law = Law::two_peers;
    if (run.law == Law::exponential)
        run.law = Law::pairs;
    return run;
}

// 9, 10. Each neighbour of the round gets y; nothing else is sent.
void traffic(Trial& trial) {
    trial.complete();
    const auto bytes = static_cast<std::uint64_t>(4 * trial.scenario.size);
    for (Index round = 1; round <= trial.run.rounds; ++round) {
        const int workers = trial.scenario.workers_in(round);
        const Graph graph = by_hand::graph_of(trial.scenario.settings, round, workers);
        for (int worker = 0; worker < workers; ++worker) {
            const auto met = neighbours(graph, worker);
            const RoundRecording& round_seen =
                trial.lives[static_cast<std::size_t>(worker)].rounds.at(round);
            const auto& sent = round_seen.sent;
            const auto count = static_cast<Index>(met.size());
            const std::vector<Index> right{round,
                                           round_seen.skipped ? 0 : trial.scenario.steps(worker, round),
                                           count, count * static_cast<Index>(bytes)};
            trial.expect(round_seen.told.empty() || round_seen.told == right, round, [&] {
                return worker_text(worker, round) +
                       ": its own account of number, inner steps, neighbours or bytes is wrong";
            });
            for (int peer = 0; peer < workers; ++peer) {
                const bool meet = std::ranges::find(met, peer, &Neighbour::worker) != met.end();
                const auto found = sent.find(peer);
                const std::uint64_t seen = found == sent.end() ? 0 : found->second;
                trial.expect(seen == (meet ? bytes : 0), round, [&] {
                    return "in round " + std::to_string(round) + " worker " + std::to_string(worker) +
                           " sent " + std::to_string(seen) + " bytes to worker " + std::to_string(peer) +
                           "; " +
                           (meet ? "its neighbour gets " + std::to_string(bytes) : "they do not meet");
                });
            }
        }
    }
    for (std::size_t worker = 0; worker < trial.lives.size(); ++worker)
        trial.expect(trial.lives[worker].others == 0, trial.run.rounds, [&] {
            return "worker " + std::to_string(worker) + " sent " +
                   std::to_string(trial.lives[worker].others) +
                   " bytes after its start that are no parameters for a neighbour";
        });
}

} // namespace

std::vector<gate::Property> neighbour_properties() {
    return {property(3, "independent",
                     "alpha = 0, or no edges: as many runs that know nothing of each other.", independent,
                     {"several ranks"}, without_restart),
            property(7, "light_cone", "What a worker does is known along the edges, a round at a time.",
                     light_cone, meets(), without_restart),
            property(8, "relabelled", "Workers under other numbers come to the same.", relabelled,
                     {"neighbours"}, few_neighbours, exact),
            property(10, "traffic",
                     "y goes to each neighbour of the round, to nobody else, and nothing besides.", traffic,
                     meets(), exact_local)};
}

} // namespace truestep::properties::gasloc
