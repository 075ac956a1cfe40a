// What known mistakes make of a round, DiLoCo's among them, in the arithmetic of level REL.
#include "mistakes.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <truestep/gasloc/reference.hpp>
#include <truestep/gasloc/traces.hpp>
#include <truestep/verify/beside.hpp>
#include <truestep/verify/known_mistakes.hpp>

namespace truestep::gasloc {

namespace {

using T = verify::Bounded;
using verify::to_vector;
using Vectors = std::vector<Vector<T>>; ///< one a worker

/// So many values of all workers and inner steps are made with each mistake.
constexpr Index most_values = 4'000'000;
/// Mistakes that do the same to the first wrong round are told apart by the rounds after it.
constexpr Index most_rounds = 4;

struct Made {
    Vectors drifted;
    Vectors gossiped;
    Vectors parameters;
};

/// A round of the reference with all that a mistake may take in place of what is right.
struct RightRound {
    const Settings& settings;
    Graph graph;
    std::vector<WorkerState<T>> before;
    Vectors last; ///< each worker's parameters a round before those that this one begins with
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
    /// What follows from a worker's y, or from its z.
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

struct Mistake {
    const char* name;
    void (*make)(const RightRound& right, Made& made);
};

const std::array<Mistake, 7> mistakes{{
    {"the outer step goes uphill: the drift has the wrong sign",
     [](const RightRound& right, Made& made) {
         for (std::size_t i = 0; i < right.workers(); ++i)
             made.drifted[i] = right.before[i].theta - right.drift(i);
         made.gossiped = right.gossip(made.drifted);
         made.parameters = right.momentum(made.drifted, made.gossiped);
     }},
    {"the outer step goes uphill: the averaged drift has the wrong sign",
     [](const RightRound& right, Made& made) {
         Vectors y = made.drifted;
         for (std::size_t i = 0; i < right.workers(); ++i)
             y[i] = right.before[i].theta - right.drift(i);
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

/// The recorded rounds beside the reference, each begun at the recorded state where there is one.
class Trial {
  public:
    Trial(const TraceReader& trace, Index parted)
        : trace_(trace), config_(trace.head().config), parted_(parted),
          reference_(config_.settings, config_.workers, to_vector<T>(trace.head().initial_parameters)),
          last_(workers(), to_vector<T>(trace.head().initial_parameters)),
          known_(names(), config_.workers, words), later_(known_) {}

    [[nodiscard]] std::string line() {
        const bool recorded = trace_.states_recorded();
        const Index last = recorded ? std::min(config_.rounds(), parted_ + most_rounds - 1) : parted_;
        for (Index round = 1; round <= last; ++round) {
            if (recorded && round > 1)
                take_recorded(round - 1);
            RightRound right = take(round);
            if (round >= parted_)
                compare(round, right, round == parted_ ? known_ : later_);
            for (std::size_t i = 0; i < workers(); ++i)
                last_[i] = right.before[i].theta;
        }
        return known_.line(parted_, later_);
    }

  private:
    static std::vector<std::string> names() {
        std::vector<std::string> all;
        all.reserve(mistakes.size());
        for (const Mistake& mistake : mistakes)
            all.emplace_back(mistake.name);
        return all;
    }

    [[nodiscard]] std::size_t workers() const { return static_cast<std::size_t>(config_.workers); }

    void take_recorded(Index round) {
        const auto values = [&](Result which, std::size_t worker) {
            return to_vector<T>(trace_.values(result(which).kind, round, static_cast<int>(worker)).value());
        };
        for (std::size_t i = 0; i < workers(); ++i) {
            WorkerState<T>& state = reference_.state[i];
            state.theta = values(Result::parameters, i);
            state.before = values(
                config_.settings.momentum == Momentum::local ? Result::drifted : Result::gossiped, i);
            if (has(config_.settings.inner, Result::first_moment))
                state.m = values(Result::first_moment, i);
            if (has(config_.settings.inner, Result::second_moment))
                state.v = values(Result::second_moment, i);
        }
    }

    [[nodiscard]] RightRound take(Index round) {
        std::vector<Gradients<T>> gradients(workers());
        for (std::size_t i = 0; i < workers(); ++i)
            for (Index h = 1; h <= config_.steps(static_cast<int>(i), round); ++h)
                gradients[i].push_back(
                    to_vector<T>(trace_.input(gradient_kind(h), round, static_cast<int>(i))));
        RightRound right{config_.settings,
                         graph_of(config_.settings, round, config_.workers),
                         reference_.state,
                         last_,
                         {},
                         {}};
        for (WorkerRound<T>& went :
             reference_.round(gradients, trace_.head().learning_rates_of(round), right.graph)) {
            right.x.push_back(std::move(went.x));
            right.made.drifted.push_back(std::move(went.y));
            right.made.gossiped.push_back(std::move(went.z));
        }
        for (const WorkerState<T>& state : reference_.state)
            right.made.parameters.push_back(state.theta);
        return right;
    }

    void compare(Index round, const RightRound& right, verify::KnownMistakes& tally) const {
        for (std::size_t mistake = 0; mistake < mistakes.size(); ++mistake) {
            Made made = right.made;
            mistakes[mistake].make(right, made);
            for (const auto& [which, part] :
                 {std::pair{Result::drifted, &Made::drifted}, std::pair{Result::gossiped, &Made::gossiped},
                  std::pair{Result::parameters, &Made::parameters}})
                for (std::size_t i = 0; i < workers(); ++i)
                    if (const auto held = trace_.values(result(which).kind, round, static_cast<int>(i)))
                        tally.add(mistake, static_cast<int>(i), *held, (right.made.*part)[i],
                                  (made.*part)[i]);
        }
    }

    const TraceReader& trace_;
    const Config& config_;
    Index parted_;
    Reference<T> reference_;
    Vectors last_;
    verify::KnownMistakes known_; ///< of the round at which it parts
    verify::KnownMistakes later_; ///< of those after it
};

} // namespace

std::string known_mistake(const verify::TraceVerdict& verdict) {
    const TraceReader trace(verdict.path);
    const Config& config = trace.head().config;
    Index steps = 0;
    for (Index round = 1; round <= verdict.first->step; ++round)
        steps += std::max<Index>(1, config.most_steps(round));
    if (steps * config.workers * config.layout.size() > most_values)
        return {};
    return Trial(trace, verdict.first->step).line();
}

} // namespace truestep::gasloc
