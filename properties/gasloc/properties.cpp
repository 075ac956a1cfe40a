// What must always hold of GASLoC: section 17.
#include "properties.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include <scape/gasloc/stability.hpp>
#include <scape/problem/text.hpp>

#include "by_hand.hpp"
#include "trial.hpp"

namespace scape::gasloc {

namespace {

using gate::Line;
using Floats = std::vector<float>;

/// What one vector has at a place, of each worker after a round.
std::vector<const Seen*> seen_after(const std::vector<Life>& lives, Index round, int workers) {
    std::vector<const Seen*> all(static_cast<std::size_t>(workers));
    for (std::size_t worker = 0; worker < all.size(); ++worker)
        all[worker] = &lives[worker].rounds.at(round);
    return all;
}

/// The message is made where it is told alone: most are not.
template <class Message>
void told(Trial& trial, bool ok, Index round, const Message& message) {
    ++trial.judged.counts.compared;
    if (ok)
        return;
    ++trial.judged.counts.wrong;
    trial.violated(round, message());
}

// 1. The sum of z is the sum of y. y is what the momentum is made of next time, and z is theta without it.
void mean_is_kept(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    if (!trial.whole(trial.lives))
        return;
    const auto gamma = static_cast<double>(static_cast<float>(trial.run.gamma));
    for (Index round = 1; round <= trial.run.rounds; ++round) {
        const auto seen = seen_after(trial.lives, round, trial.scenario.workers);
        for (std::size_t i = 0; i < trial.scenario.start.size(); ++i) {
            double of_y = 0.0;
            double of_z = 0.0;
            for (int worker = 0; worker < trial.scenario.workers; ++worker) {
                const auto rank = static_cast<std::size_t>(worker);
                const auto y = static_cast<double>(seen[rank]->state.before[i]);
                const auto before = static_cast<double>(
                    round == 1 ? trial.scenario.start[i]
                               : trial.lives[rank].rounds.at(round - 1).state.before[i]);
                of_y += y;
                of_z += static_cast<double>(seen[rank]->state.theta[i]) - gamma * (y - before);
            }
            told(trial, of_y == of_z, round, [&] {
                return "after round " + std::to_string(round) +
                       " the sum of z over workers at coordinate " + std::to_string(i) + " is " +
                       shortest(of_z) + "; that of y is " + shortest(of_y);
            });
        }
    }
}

// 2. A consensus without drift stays as it is.
void consensus_stays(Trial& trial) {
    trial.scenario.steps = [](int, Index) { return Index{0}; };
    trial.lives = trial.play(trial.scenario);
    if (!trial.whole(trial.lives))
        return;
    // -0 + 0 is +0: the sign of a zero may be lost where there is momentum.
    const auto unsigned_zero = [](Floats values) {
        for (float& value : values)
            value += 0.0F;
        return values;
    };
    for (Index round = 1; round <= trial.run.rounds; ++round)
        for (int worker = 0; worker < trial.scenario.workers_in(round); ++worker)
            trial.same(
                unsigned_zero(trial.scenario.start),
                unsigned_zero(trial.lives[static_cast<std::size_t>(worker)].rounds.at(round).state.theta),
                round, worker, "theta", "what all began with, though nothing has drifted");
}

/// One worker of a scenario, by itself.
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

// 3. alpha = 0 or no edges: as many runs that know nothing of each other.
void independent(Trial& trial) {
    if (trial.scenario.settings.law != Law::none)
        trial.scenario.settings.alpha = 0.0;
    trial.lives = trial.play(trial.scenario);
    for (int worker = 0; worker < trial.scenario.workers; ++worker) {
        const std::vector<Life> one = trial.play(alone(trial.scenario, worker));
        for (const auto& entry : one.front().rounds) {
            const Index round = entry.first;
            const Seen& seen = entry.second;
            const auto& rounds = trial.lives[static_cast<std::size_t>(worker)].rounds;
            if (rounds.contains(round))
                trial.same(seen.state, rounds.at(round).state, round, worker,
                           "those of the same worker by itself");
        }
    }
}

// 4. eta = 1, gamma = 0, alpha = 0: the inner optimizer and nothing else, but for theta + (x - theta).
void inner_optimizer(Trial& trial) {
    Settings& settings = trial.scenario.settings;
    settings.eta = 1.0;
    settings.gamma = 0.0;
    settings.alpha = 0.0;
    trial.lives = trial.play(trial.scenario);
    for (int worker = 0; worker < trial.scenario.workers; ++worker) {
        const Floats zeros(trial.scenario.start.size(), 0.0F);
        by_hand::Inner now{trial.scenario.start, settings.inner == Inner::sgd ? Floats{} : zeros,
                           settings.inner == Inner::adamw ? zeros : Floats{}, 0};
        for (const auto& entry : trial.lives[static_cast<std::size_t>(worker)].rounds) {
            const Index round = entry.first;
            const Seen& seen = entry.second;
            const Floats theta = now.x;
            now = by_hand::after_inner_steps(trial.scenario, worker, round, now);
            trial.same(now.m, seen.state.m, round, worker, "the first moment", "the inner optimizer's");
            trial.same(now.v, seen.state.v, round, worker, "the second moment", "the inner optimizer's");
            told(trial, now.s == seen.state.s, round, [&] {
                return worker_text(worker, round) + " counts " + std::to_string(seen.state.s) +
                       " inner steps; it has taken " + std::to_string(now.s);
            });
            for (std::size_t i = 0; i < theta.size(); ++i) {
                // Two roundings: of x - theta, and of the sum.
                const double x = static_cast<double>(now.x[i]);
                const double limit =
                    0x1p-23 * (std::abs(x) + std::abs(static_cast<double>(theta[i]))) + 0x1p-148;
                told(trial, !(std::abs(static_cast<double>(seen.state.theta[i]) - x) > limit), round, [&] {
                    return worker_text(worker, round) + " has " + shortest(seen.state.theta[i]) +
                           " at coordinate " + std::to_string(i) + "; the inner optimizer makes it " +
                           shortest(now.x[i]);
                });
            }
            now.x = seen.state.theta;
        }
    }
}

void sums_are_dilocos(Trial& trial) {
    const auto sums = by_hand::diloco(trial.scenario);
    for (Index round = 1; round <= trial.run.rounds; ++round)
        for (std::size_t i = 0; i < trial.scenario.start.size(); ++i) {
            double sum = 0.0;
            for (const Seen* seen : seen_after(trial.lives, round, trial.scenario.workers))
                sum += static_cast<double>(seen->state.theta[i]);
            const double wanted = sums[static_cast<std::size_t>(round - 1)][i];
            told(trial, sum == wanted, round, [&] {
                return "after round " + std::to_string(round) +
                       " the sum of theta over workers at coordinate " + std::to_string(i) + " is " +
                       shortest(sum) + "; DiLoCo's is " + shortest(wanted);
            });
        }
}

// 5. The mean over workers is DiLoCo's, whatever the graph.
void mean_is_dilocos(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    if (trial.whole(trial.lives))
        sums_are_dilocos(trial);
}

// 6. Full averaging, placement gossiped: all workers alike, and DiLoCo's.
void full_averaging(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    if (!trial.whole(trial.lives))
        return;
    for (Index round = 1; round <= trial.run.rounds; ++round) {
        const auto seen = seen_after(trial.lives, round, trial.scenario.workers);
        for (int worker = 1; worker < trial.scenario.workers; ++worker)
            trial.same(seen[0]->state.theta, seen[static_cast<std::size_t>(worker)]->state.theta, round,
                       worker, "theta", "worker 0's");
    }
    sums_are_dilocos(trial);
}

// 7. A change at one worker reaches those along the edges, and nobody else.
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
    const std::vector<Life> other = trial.play(changed);
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
            told(trial, first.contains(round) == second.contains(round), round, [&] {
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

// 8. Workers under other numbers: the same results under other numbers.
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
    std::vector<Life> lives = trial.play(other);
    std::reverse(lives.begin(), lives.end());
    for (std::size_t i = 0; i < lives.size(); ++i)
        for (const auto& [round, seen] : lives[i].rounds)
            if (trial.lives[i].rounds.contains(round))
                trial.same(seen.state, trial.lives[i].rounds.at(round).state, round, static_cast<int>(i),
                           "those under another number");
}

// 9, 10. y goes to each neighbour of the round, to nobody else, and nothing besides.
void traffic(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    if (!trial.whole(trial.lives))
        return;
    const auto bytes = static_cast<std::uint64_t>(4 * trial.scenario.size);
    for (Index round = 1; round <= trial.run.rounds; ++round) {
        const int workers = trial.scenario.workers_in(round);
        const Graph graph = by_hand::graph_of(trial.scenario.settings, round, workers);
        for (int worker = 0; worker < workers; ++worker) {
            std::map<int, std::uint64_t> wanted;
            for (const Neighbour& neighbour : neighbours(graph, worker))
                if (bytes > 0)
                    wanted[neighbour.worker] = bytes;
            const auto& sent = trial.lives[static_cast<std::size_t>(worker)].rounds.at(round).sent;
            for (int peer = 0; peer < workers; ++peer) {
                const auto of = [peer](const std::map<int, std::uint64_t>& all) {
                    const auto found = all.find(peer);
                    return found == all.end() ? 0 : found->second;
                };
                told(trial, of(sent) == of(wanted), round, [&] {
                    return "in round " + std::to_string(round) + " worker " + std::to_string(worker) +
                           " sent " + std::to_string(of(sent)) + " bytes to worker " +
                           std::to_string(peer) + "; " +
                           (of(wanted) > 0 ? "its neighbour gets " + std::to_string(bytes)
                                           : "they do not meet");
                });
            }
        }
    }
    for (std::size_t worker = 0; worker < trial.lives.size(); ++worker)
        told(trial, trial.lives[worker].others == 0, trial.run.rounds, [&] {
            return "worker " + std::to_string(worker) + " sent " +
                   std::to_string(trial.lives[worker].others) +
                   " bytes after its start that are no parameters for a neighbour";
        });
}

// 11. Whoever does not depend on a worker that is held back goes on.
void no_barrier(Trial& trial) {
    Scenario& scenario = trial.scenario;
    const auto seed = static_cast<Index>(scenario.settings.seed);
    const int held = static_cast<int>(seed % scenario.workers);
    const Index from = 1 + seed % scenario.rounds;
    const std::vector<Life> expected = expected_lives(scenario);
    // The round up to which a worker does not need it.
    std::vector<Index> ahead(static_cast<std::size_t>(scenario.workers), from - 1);
    for (Index round = from; round <= scenario.rounds; ++round) {
        const std::vector<bool> reached = by_hand::light_cone(scenario, held, from, round);
        for (std::size_t i = 0; i < ahead.size(); ++i)
            if (!reached[i])
                ahead[i] = round;
    }
    // And the last that it begins by then.
    for (std::size_t i = 0; i < ahead.size(); ++i) {
        const Index ended = std::max(expected[i].halted, expected[i].left_alone);
        ahead[i] = std::min({ahead[i] + 1, scenario.rounds, ended > 0 ? ended : scenario.rounds});
    }
    std::vector<std::atomic<Index>> begun(ahead.size());
    std::atomic<bool> late{false};
    scenario.before_round = [&](int worker, Index round) {
        begun[static_cast<std::size_t>(worker)] = round;
        if (worker != held || round != from)
            return;
        // Long enough for a loaded machine; those who wait for this one wait as long.
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
        const auto all_ahead = [&] {
            for (std::size_t i = 0; i < ahead.size(); ++i)
                if (static_cast<int>(i) != held && begun[i] < ahead[i])
                    return false;
            return true;
        };
        while (!all_ahead() && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
        late = !all_ahead();
    };
    trial.lives = trial.play(scenario);
    scenario.before_round = [](int, Index) {};
    for (std::size_t i = 0; late && i < ahead.size(); ++i)
        told(trial, false, from, [&] {
            return "worker " + std::to_string(held) + " was held back before round " +
                   std::to_string(from) + ", and workers that do not depend on it waited for it";
        });
    trial.same(expected, trial.lives, "the reference's");
}

// 12. When messages come changes no bit.
void delays(Trial& trial) {
    trial.scenario.late = 0;
    const std::vector<Life> punctual = trial.play(trial.scenario);
    trial.scenario.late = std::max<Index>(1, trial.run.late);
    trial.lives = trial.play(trial.scenario);
    trial.same(punctual, trial.lives, "those of messages that come at once");
}

// 13. A skipped round is a round without inner steps.
void skipped(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    Scenario without = trial.scenario;
    without.steps = [scenario = trial.scenario](int worker, Index round) {
        const auto gradients = scenario.gradients(worker, round);
        for (const Floats& gradient : gradients)
            if (!std::all_of(gradient.begin(), gradient.end(), [](float x) { return std::isfinite(x); }))
                return Index{0};
        return static_cast<Index>(gradients.size());
    };
    // The learning rates of others are what they were.
    const std::vector<Life> lives = trial.play(without);
    for (std::size_t i = 0; i < lives.size(); ++i)
        for (const auto& entry : lives[i].rounds) {
            const Index round = entry.first;
            const Seen& seen = entry.second;
            const auto found = trial.lives[i].rounds.find(round);
            if (found == trial.lives[i].rounds.end())
                continue;
            trial.same(seen.state, found->second.state, round, static_cast<int>(i),
                       "those without inner steps in the skipped round");
            const bool bad = without.steps(static_cast<int>(i), round) !=
                             trial.scenario.steps(static_cast<int>(i), round);
            told(trial, found->second.skipped == bad, round, [&] {
                return worker_text(static_cast<int>(i), round) +
                       (bad ? " does not say that it skipped the round"
                            : " says that it skipped the round");
            });
        }
}

// 14. A restart with as many workers changes no bit.
void restart_same(Trial& trial) {
    Scenario going_on = trial.scenario;
    going_on.restart = 0;
    const std::vector<Life> lives = trial.play(going_on);
    trial.lives = trial.play(trial.scenario);
    for (std::size_t i = 0; i < lives.size(); ++i)
        for (const auto& entry : lives[i].rounds) {
            const Index round = entry.first;
            const Seen& seen = entry.second;
            const auto found = trial.lives[i].rounds.find(round);
            if (found != trial.lives[i].rounds.end())
                trial.same(seen.state, found->second.state, round, static_cast<int>(i),
                           "those of a run without a restart");
            else if (round <= trial.scenario.restart || trial.lives[i].restarted)
                told(trial, false, round, [&] {
                    return "worker " + std::to_string(i) + " did not end round " + std::to_string(round) +
                           " after the restart: " + trial.lives[i].reason;
                });
            else if (!trial.lives[i].refused.empty())
                told(trial, false, round,
                     [&] { return "the restart was refused: " + trial.lives[i].refused; });
        }
}

// 14. With another number all begin with the mean.
void restart_other(Trial& trial) {
    if (!trial.candidate.takes(trial.scenario.to))
        return;
    trial.lives = trial.play(trial.scenario);
    const Index at = trial.scenario.restart;
    const int workers = trial.scenario.workers;
    for (int worker = 0; worker < workers; ++worker)
        if (!trial.lives[static_cast<std::size_t>(worker)].rounds.contains(at))
            return;
    State mean = trial.lives[0].rounds.at(at).state;
    for (const auto part : {&State::theta, &State::before, &State::m, &State::v})
        for (std::size_t i = 0; i < (mean.*part).size(); ++i) {
            float sum = (mean.*part)[i];
            for (int worker = 1; worker < workers; ++worker)
                sum += (trial.lives[static_cast<std::size_t>(worker)].rounds.at(at).state.*part)[i];
            (mean.*part)[i] = sum / static_cast<float>(workers);
        }
    for (int worker = 0; worker < workers; ++worker)
        mean.s = std::max(mean.s, trial.lives[static_cast<std::size_t>(worker)].rounds.at(at).state.s);
    for (int worker = 0; worker < trial.scenario.to; ++worker) {
        const Life& life = trial.lives[static_cast<std::size_t>(worker)];
        told(trial, life.restarted, at,
             [&] { return "worker " + std::to_string(worker) + " did not begin again: " + life.refused; });
        if (life.restarted)
            trial.same(mean, life.begun, at, worker, "the mean of all workers before the restart");
    }
}

// 15. Disagreement shrinks as it has to: the linear recursion of the chapter, in double.
void contraction(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    if (!trial.whole(trial.lives))
        return;
    const auto n = static_cast<std::size_t>(trial.scenario.workers);
    const double alpha = static_cast<double>(static_cast<float>(trial.run.alpha));
    const double gamma = static_cast<double>(static_cast<float>(trial.run.gamma));
    const bool local = trial.run.momentum == Momentum::local;
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
            const std::vector<double> y = theta;
            std::vector<double> z = y;
            for (const Edge& edge :
                 by_hand::graph_of(trial.scenario.settings, round, trial.scenario.workers)) {
                const auto a = static_cast<std::size_t>(edge.a);
                const auto b = static_cast<std::size_t>(edge.b);
                z[a] -= alpha / 2 * edge.weight * (y[a] - y[b]);
                z[b] -= alpha / 2 * edge.weight * (y[b] - y[a]);
            }
            for (std::size_t worker = 0; worker < n; ++worker) {
                const double moves = local ? y[worker] : z[worker];
                theta[worker] = z[worker] + gamma * (moves - before[worker]);
                before[worker] = moves;
                size = std::max(size, std::abs(theta[worker]));
                const double seen =
                    static_cast<double>(trial.lives[worker].rounds.at(round).state.theta[i]);
                // Some ten roundings a round, each passed on at most as the rest is where it is stable.
                const double limit = 0x1p-24 * 40.0 * static_cast<double>(round) * size + 0x1p-140;
                told(trial, !(std::abs(seen - theta[worker]) > limit), round, [&] {
                    return worker_text(static_cast<int>(worker), round) + " has " + shortest(seen) +
                           " at coordinate " + std::to_string(i) + "; without drift it would be " +
                           shortest(theta[worker]);
                });
            }
        }
    }
}

// 17. Each setting matters.
void settings_matter(Trial& trial) {
    Scenario& scenario = trial.scenario;
    trial.lives = trial.play(scenario);
    const auto differs = [&](const char* what, const Scenario& other) {
        const std::vector<Life> lives = trial.play(other);
        bool any = false;
        for (std::size_t i = 0; i < lives.size(); ++i)
            for (const auto& entry : lives[i].rounds) {
                const Index round = entry.first;
                const Seen& seen = entry.second;
                const auto found = trial.lives[i].rounds.find(round);
                any = any || found == trial.lives[i].rounds.end() ||
                      found->second.state.theta != seen.state.theta;
            }
        told(trial, any, scenario.rounds,
             [&] { return std::string("another ") + what + " gives the same bits"; });
    };
    const auto with = [&](const std::function<void(Scenario&)>& change) {
        Scenario other = scenario;
        change(other);
        return other;
    };
    // One worker alone has no edges, and two always the same.
    const bool meet = scenario.workers > 1;
    if (meet)
        differs("alpha", with([](Scenario& s) { s.settings.alpha *= 0.75; }));
    differs("gamma", with([](Scenario& s) { s.settings.gamma = s.settings.gamma == 0.25 ? 0.5 : 0.25; }));
    differs("eta", with([](Scenario& s) { s.settings.eta *= 0.75; }));
    if (scenario.workers > 2)
        differs("seed of the graph", with([](Scenario& s) {
                    // One that leads to other pairs in the first round.
                    const Graph graph = by_hand::graph_of(s.settings, 1, s.workers);
                    while (by_hand::graph_of(s.settings, 1, s.workers) == graph)
                        ++s.settings.seed;
                }));
    if (meet)
        differs("weight of the edges", with([](Scenario& s) {
                    for (Index round = 1; round <= s.rounds; ++round) {
                        s.settings.given.push_back(by_hand::graph_of(s.settings, round, s.workers));
                        for (Edge& edge : s.settings.given.back())
                            edge.weight *= 0.5;
                    }
                    s.settings.law = Law::given;
                }));
    differs("number of inner steps", with([](Scenario& s) {
                s.steps = [steps = s.steps](int worker, Index round) { return steps(worker, round) + 1; };
            }));
    differs("learning rate", with([](Scenario& s) {
                s.learning_rate = [rate = s.learning_rate](Index round, Index step) {
                    return rate(round, step) * 0.75;
                };
            }));
    differs("learning rate of the second inner step", with([](Scenario& s) {
                s.learning_rate = [rate = s.learning_rate](Index round, Index step) {
                    return rate(round, step) * (step == 2 ? 0.5 : 1.0);
                };
            }));
    differs("weight decay",
            with([](Scenario& s) { s.settings.hyper.weight_decay = s.settings.hyper.weight_decay + 0.5; }));
    if (meet)
        differs("placement of the momentum", with([](Scenario& s) {
                    s.settings.momentum =
                        s.settings.momentum == Momentum::local ? Momentum::gossiped : Momentum::local;
                }));
}

// 18. What cannot go well does not begin: on any rank, and each says why.
void refusals(Trial& trial) {
    Scenario& scenario = trial.scenario;
    const int odd = scenario.workers - 1;
    const auto refused = [&](const std::string& what, const Scenario& wrong,
                             const std::vector<std::string>& words) {
        const std::vector<Life> lives = trial.play(wrong);
        for (std::size_t i = 0; i < lives.size(); ++i) {
            bool says = !lives[i].refused.empty();
            for (const std::string& word : words)
                says = says && lives[i].refused.find(word) != std::string::npos;
            told(trial, says, 1, [&] {
                return "worker " + std::to_string(i) +
                       (lives[i].refused.empty()
                            ? " begins, though " + what
                            : " does not say that " + what + ": '" + lives[i].refused + "'");
            });
        }
    };
    const auto of_last = [&](const std::function<void(Settings&)>& change) {
        Scenario wrong = scenario;
        wrong.settings_of = [odd, change](int worker, Settings settings) {
            if (worker == odd)
                change(settings);
            return settings;
        };
        return wrong;
    };
    if (scenario.workers > 1) {
        const std::string rank = "rank " + std::to_string(odd);
        refused(rank + " has another alpha", of_last([](Settings& s) { s.alpha += 0.125; }),
                {rank, "alpha"});
        refused(rank + " has another gamma", of_last([](Settings& s) { s.gamma = 0.0625; }),
                {rank, "gamma"});
        refused(rank + " has another eta", of_last([](Settings& s) { s.eta *= 2; }), {rank, "eta"});
        refused(rank + " has another law",
                of_last([](Settings& s) { s.law = s.law == Law::none ? Law::pairs : Law::none; }),
                {rank, "law"});
        refused(rank + " has another seed", of_last([](Settings& s) { ++s.seed; }), {rank, "seed"});
        refused(rank + " has another inner optimizer",
                of_last([](Settings& s) { s.inner = s.inner == Inner::sgd ? Inner::adamw : Inner::sgd; }),
                {rank, "inner"});
        refused(rank + " has another weight decay",
                of_last([](Settings& s) { s.hyper.weight_decay += 0.5; }), {rank, "weight_decay"});
        Scenario wrong = scenario;
        wrong.start_of = [odd](int worker, Floats start) {
            if (worker == odd && !start.empty())
                start.back() += 1.0F;
            return start;
        };
        if (scenario.size > 0)
            refused(rank + " starts from other parameters", wrong, {rank, "parameters"});
        Scenario unstable = scenario;
        unstable.settings.allow_unstable = false;
        unstable.settings.law = Law::pairs;
        unstable.settings.alpha = 1.0;
        unstable.settings.gamma = 0.9375;
        unstable.settings.momentum = Momentum::local;
        if (scenario.workers > 2)
            refused("it diverges", unstable, {"gamma"});
        for (const Graph& edges : {Graph{{0, 0}}, Graph{{0, 1}, {1, 0}}, Graph{{0, scenario.workers}}}) {
            Scenario given = scenario;
            given.settings.law = Law::given;
            given.settings.given = {edges};
            refused("an edge is none", given, {"edge"});
        }
    }
    Scenario negative = scenario;
    negative.settings.eta = -1.0;
    refused("eta is negative", negative, {"eta"});
}

// 16, and all together.
void equals_the_reference(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    trial.same(expected_lives(trial.scenario), trial.lives, "the reference's");
}

using Judge = void (*)(Trial&);
using Change = Case (*)(Case);
using AtLeast = std::map<std::string, int>;

Case as_it_is(Case run) {
    return run;
}

gate::Property property(int number, const std::string& name, const std::string& says, Judge judge,
                        AtLeast at_least = {}, Change change = as_it_is) {
    gate::Property made{number,
                        name,
                        says,
                        [change] { return rc::gen::map(rc::gen::map(any_case(), change), text); },
                        [judge, change](const gate::Implementation& implementation, const Line& line) {
                            Trial trial(implementation, change(parse_case(line)));
                            judge(trial);
                            return trial.judged;
                        },
                        std::move(at_least),
                        [](const gate::Implementation&) { return std::string(); },
                        [change](const Line& line, const gate::LeftOut& left_out) {
                            Case run = change(parse_case(line));
                            if (left_out.contains("restart.same") || left_out.contains("restart")) {
                                run.restart = 0;
                                run.to = 0;
                            }
                            return text(run);
                        }};
    return made;
}

Case exact_local(Case run) {
    run = exact(run);
    run.momentum = Momentum::local;
    return run;
}

Case without_restart(Case run) {
    run.restart = 0;
    run.to = 0;
    return run;
}

Case fully_averaged(Case run) {
    run.law = Law::complete;
    run = exact(run);
    run.momentum = Momentum::gossiped;
    run.alpha = 1.0;
    return run;
}

/// Two neighbours or fewer: sums of three and more have an order.
Case few_neighbours(Case run) {
    run = without_restart(run);
    if (run.law == Law::complete || run.law == Law::given || run.law == Law::hypercube)
        run.law = Law::two_peers;
    if (run.law == Law::exponential)
        run.law = Law::pairs;
    return run;
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
    // Fewer where there are several: as many as can be had under mpirun, and any law has them.
    run.to = run.workers > 2 || run.workers == 1 ? 2 : 1;
    return run;
}

/// One drift that makes workers part, then none; stable, and few enough rounds to follow.
Case drifting_once(Case run) {
    run = without_restart(run);
    run.inner = Inner::sgd;
    run.data = problem::DataClass::normal;
    run.rounds = std::max<Index>(run.rounds, 2) * 4;
    run.steps = 1;
    run.uneven = 0;
    run.skip = 0;
    run.alpha = std::min(run.alpha, 0.5);
    run.gamma = std::min(run.gamma, 0.5);
    return run;
}

Case mattering(Case run) {
    run = without_restart(run);
    run.law = Law::pairs;
    run.size = std::max<Index>(8, run.size);
    run.rounds = std::max<Index>(3, run.rounds);
    run.steps = std::max<Index>(2, run.steps);
    run.uneven = 0;
    run.skip = 0;
    run.late = 0;
    run.data = problem::DataClass::normal;
    run.lr = 0.125;
    run.alpha = run.alpha == 0.0 ? 0.5 : run.alpha;
    run.gamma = run.gamma == 0.0 ? 0.5 : run.gamma;
    run.epsilon = 0x1p-20;
    return run;
}

/// Tried beside the drawn ones.
std::vector<Line> larger_cases(const gate::Pins& pins) {
    if (!pins.empty())
        return {};
    // Beyond a piece and a thread's share; many workers; a restart half-way; steps beyond 2^16.
    return {"law=two_peers,inner=adamw,data=normal,workers=3,size=140003,rounds=2,steps=2,threads=3",
            "law=pairs,inner=adams,data=ties,workers=2,size=65537,rounds=3,gamma=0.25,late=3",
            "law=ring,data=wide,workers=5,size=131072,rounds=2,uneven=1,alpha=0.3,decay=0.1,threads=2",
            "law=complete,inner=adamw,data=normal,workers=33,size=7,rounds=3,gamma=0.5,steps=3",
            "law=exponential,inner=adamw,workers=9,size=5,rounds=300,gamma=0.25,alpha=0.3,restart=150",
            "law=pairs,inner=adamw,data=normal,workers=1,size=1,rounds=400,steps=200,gamma=0.5"};
}

void drifts_once(Trial& trial) {
    trial.scenario.steps = [](int, Index round) { return round == 1 ? Index{1} : Index{0}; };
    contraction(trial);
}

} // namespace

std::vector<gate::Property> properties() {
    const AtLeast meets{{"neighbours", 40}, {"several neighbours", 15}, {"momentum", 40}};
    std::vector<gate::Property> all{
        property(1, "mean", "Gossip moves nothing but differences: the sum of z is the sum of y.",
                 mean_is_kept, meets, exact_local),
        property(2, "consensus", "Workers that agree and do not drift stay as they are.", consensus_stays,
                 meets, without_restart),
        property(3, "independent", "alpha = 0, or no edges: as many runs that know nothing of each other.",
                 independent, {{"several ranks", 60}}, without_restart),
        property(4, "inner", "eta = 1, gamma = 0, alpha = 0: the inner optimizer.", inner_optimizer,
                 {{"adaptive", 40}, {"several inner steps", 30}}, without_restart),
        property(5, "diloco.mean", "The mean over workers is Nesterov DiLoCo's, on any graph.",
                 mean_is_dilocos, meets, exact_local),
        property(6, "diloco.full", "Full averaging with gossiped momentum is DiLoCo on every worker.",
                 full_averaging, {{"neighbours", 40}}, fully_averaged),
        property(7, "light_cone", "What a worker does is known along the edges, a round at a time.",
                 light_cone, meets, without_restart),
        property(8, "relabelled", "Workers under other numbers come to the same.", relabelled,
                 {{"neighbours", 40}}, few_neighbours),
        property(10, "traffic",
                 "y goes to each neighbour of the round, to nobody else, and nothing besides.", traffic,
                 meets, exact_local),
        property(11, "no_barrier", "Whoever does not depend on a worker that is held back goes on.",
                 no_barrier, {{"several ranks", 60}}, without_restart),
        property(12, "delay", "When messages come changes no bit.", delays, meets, without_restart),
        property(13, "skipped", "A round with a gradient that is not finite is one without inner steps.",
                 skipped, {{"skipped", 40}}, with_a_bad_gradient),
        property(14, "restart.same", "A restart with as many workers changes no bit.", restart_same,
                 {{"restart", 90}}, restarted),
        property(14, "restart.other", "With another number of workers all begin with the mean.",
                 restart_other, {{"other number of ranks", 90}}, restarted_with_others),
        property(15, "contraction",
                 "Without drift disagreement becomes what the chapter's map makes of it.", drifts_once,
                 {{"neighbours", 40}}, drifting_once),
        property(17, "settings", "Each setting matters: another value gives other bits.", settings_matter,
                 {{"neighbours", 60}}, mattering),
        property(18, "refusal", "What cannot go well does not begin on any rank, and says why.", refusals,
                 {{"several ranks", 60}}, without_restart),
        property(0, "reference", "Every bit is the reference's.", equals_the_reference,
                 {{"neighbours", 50},
                  {"several neighbours", 20},
                  {"one that meets nobody", 5},
                  {"odd number of ranks", 20},
                  {"uneven", 30},
                  {"no inner steps", 20},
                  {"adaptive", 40},
                  {"momentum", 50},
                  {"several rounds", 50}})};
    all.back().also = larger_cases;
    for (gate::Property& one : all)
        if (one.name == "no_barrier")
            one.skipped = [](const gate::Implementation& implementation) -> std::string {
                return dynamic_cast<const Candidate&>(implementation).in_process()
                           ? ""
                           : "only threads can be held back at will; distributed.mpi_peers shows it of "
                             "processes";
            };
    return all;
}

} // namespace scape::gasloc
