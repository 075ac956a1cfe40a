// The effect of known bugs on a round, including DiLoCo's, in the arithmetic of level REL.
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <truestep/verify/known_bugs.hpp>

#include "rounds.hpp"

namespace truestep::verify::gasloc {

namespace {

using T = verify::Bounded;
using verify::to_vector;
using Vectors = std::vector<Vector<T>>; ///< one a worker

/// Each known bug is tried on this many values of all workers and inner steps.
constexpr Index most_values = 4'000'000;

struct Made {
    Vectors drifted;
    Vectors gossiped;
    Vectors parameters;
};

/// A round of the reference with everything that a known bug may use in place of the right value.
struct RightRound {
    const Settings& settings;
    Graph graph;
    std::vector<WorkerState<T>> before;
    Vectors last; ///< each worker's parameters one round before the begin of this one
    Vectors x;
    Made made;

    [[nodiscard]] std::size_t workers() const { return before.size(); }
    [[nodiscard]] Vector<T> drift(std::size_t i) const {
        return T(settings.eta) * (x[i] - before[i].theta);
    }
    [[nodiscard]] Vector<T> with_momentum(std::size_t i, const Vector<T>& y, const Vector<T>& z) const {
        const Vector<T>& moves = settings.momentum == Momentum::local ? y : z;
        return settings.gamma == 0.0 ? z : Vector<T>(z + (T(settings.gamma) * (moves - before[i].before)));
    }
    /// y with the wrong sign of the drift.
    [[nodiscard]] Vectors uphill() const {
        Vectors y;
        for (std::size_t i = 0; i < workers(); ++i)
            y.push_back(before[i].theta - drift(i));
        return y;
    }
    /// Gossip, and below momentum, from all workers' y (or z).
    [[nodiscard]] Vectors gossip(const Vectors& y) const {
        Vectors z = y;
        for (std::size_t i = 0; i < y.size(); ++i) {
            Vector<T> acc = Vector<T>::Zero(y[i].size());
            for (const Neighbour& j : neighbours(graph, static_cast<int>(i)))
                acc = acc + (T(j.weight) * (y[i] - y[static_cast<std::size_t>(j.worker)]));
            z[i] = y[i] - (T(settings.alpha / 2) * acc);
        }
        return z;
    }
    [[nodiscard]] Vectors momentum(const Vectors& y, const Vectors& z) const {
        Vectors theta;
        for (std::size_t i = 0; i < y.size(); ++i)
            theta.push_back(with_momentum(i, y[i], z[i]));
        return theta;
    }
    [[nodiscard]] bool everybody_meets() const {
        return workers() > 1 && graph.size() == workers() * (workers() - 1) / 2;
    }
};

struct KnownBug {
    const char* name;
    void (*make)(const RightRound& right, Made& made);
};

const std::array<KnownBug, 7> known_bugs{{
    {"the outer step goes uphill: the drift has the wrong sign",
     [](const RightRound& right, Made& made) {
         made.drifted = right.uphill();
         made.gossiped = right.gossip(made.drifted);
         made.parameters = right.momentum(made.drifted, made.gossiped);
     }},
    {"the outer step goes uphill: the averaged drift has the wrong sign",
     [](const RightRound& right, Made& made) {
         const Vectors y = right.uphill();
         made.gossiped = right.gossip(y);
         made.parameters = right.momentum(y, made.gossiped);
     }},
    {"the outer step adds the sum of the workers' drifts in place of their mean",
     [](const RightRound& right, Made& made) {
         if (!right.everybody_meets())
             return;
         const auto n = static_cast<double>(right.workers());
         Vector<T> more = Vector<T>::Zero(right.x.front().size());
         for (std::size_t i = 0; i < right.workers(); ++i)
             more = more + (T((n - 1.0) / n) * right.drift(i));
         for (Vector<T>& z : made.gossiped)
             z = z + more;
         made.parameters = right.momentum(made.drifted, made.gossiped);
     }},
    {"the outer momentum is not Nesterov's: the last move is added, without this round's",
     [](const RightRound& right, Made& made) {
         for (std::size_t i = 0; i < right.workers(); ++i)
             made.parameters[i] =
                 made.gossiped[i] + (T(right.settings.gamma) * (right.before[i].theta - right.last[i]));
     }},
    {"there is no outer momentum", [](const RightRound&, Made& made) { made.parameters = made.gossiped; }},
    {"no worker is pulled towards its neighbours: the average is never taken over",
     [](const RightRound& right, Made& made) {
         made.gossiped = made.drifted;
         made.parameters = right.momentum(made.drifted, made.gossiped);
     }},
    {"the outer step is not taken over: each worker goes on from its own inner steps",
     [](const RightRound& right, Made& made) { made.parameters = right.x; }},
}};

/// Compares the recorded round with the reference's, and with what each known bug makes of it.
void compare(const TraceReader& trace, Index round, const RightRound& right, verify::KnownMistakes& known) {
    for (std::size_t known_bug = 0; known_bug < known_bugs.size(); ++known_bug) {
        Made made = right.made;
        known_bugs[known_bug].make(right, made);
        for (const auto& [which, part] :
             {std::pair{Result::drifted, &Made::drifted}, std::pair{Result::gossiped, &Made::gossiped},
              std::pair{Result::parameters, &Made::parameters}})
            for (std::size_t i = 0; i < right.workers(); ++i)
                if (const auto held = trace.values(result(which).kind, round, static_cast<int>(i)))
                    known.add(known_bug, round, static_cast<int>(i), *held, (right.made.*part)[i],
                              (made.*part)[i]);
    }
}

} // namespace

std::string known_bug(const verify::TraceVerdict& verdict) {
    const TraceReader trace(verdict.path);
    const Config& config = trace.head().config;
    Index steps = 0;
    for (Index round = 1; round <= verdict.first->step; ++round)
        steps += std::max<Index>(1, config.most_steps(round));
    if (steps * config.workers * config.layout.size() > most_values)
        return {};
    const Index parted = verdict.first->step;
    const bool recorded = trace.states_recorded();
    verify::KnownMistakes known(known_bugs, config.workers, parted, words);
    Rounds<T> rounds(trace.head());
    Vectors last(rounds.reference.state.size(), to_vector<T>(trace.head().initial_parameters));
    for (Index round = 1; round <= (recorded ? known.last(config.rounds()) : parted); ++round) {
        RightRound right{config.settings, {}, rounds.reference.state, last, {}, {}};
        rounds.take(trace);
        right.graph = rounds.graph;
        for (std::size_t i = 0; i < right.workers(); ++i) {
            const auto value = [&](Result which) { return rounds.value(which, static_cast<int>(i)); };
            right.x.push_back(value(Result::inner));
            right.made.drifted.push_back(value(Result::drifted));
            right.made.gossiped.push_back(value(Result::gossiped));
            right.made.parameters.push_back(value(Result::parameters));
            last[i] = right.before[i].theta;
        }
        if (round >= parted)
            compare(trace, round, right, known);
        if (recorded)
            rounds.follow(trace);
    }
    return known.line();
}

} // namespace truestep::verify::gasloc
