// The reference of GASLoC (sections 13 and 16), over any scalar.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/graph.hpp>
#include <truestep/problem/gasloc/settings.hpp>
#include <truestep/reference/coefficients.hpp>
#include <truestep/reference/update.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference::gasloc {

using namespace problem::gasloc;
using problem::gasloc::Settings; // not that of <truestep/optimizer.hpp>

template <class T>
using Vector = reference::Vector<T>;
/// The gradients of one worker, one vector an inner step.
template <class T>
using Gradients = std::vector<Vector<T>>;

/// The state of one worker in a checkpoint (section 16), besides settings and round.
template <class T>
struct WorkerState {
    Vector<T> theta;
    Vector<T> before; ///< y or z of the last round
    Vector<T> m;      ///< for adams and adamw; else empty
    Vector<T> v;      ///< for adamw; else empty
    Index s = 0;      ///< all inner steps so far
};

/// The intermediate values of one worker's round, under the specification's names.
template <class T>
struct WorkerRound {
    bool skipped = false; ///< a gradient was not finite
    Vector<T> x;
    Vector<T> y;
    Vector<T> z;
};

/// GASLoC for n workers in one process: section 13, in its order.
template <class T>
class Reference {
  public:
    Reference(Settings settings, int workers, const Vector<T>& parameters)
        : settings_(std::move(settings)) {
        check(settings_);
        check_law(settings_.law, workers);
        const auto zeros = [&](bool has) {
            return has ? Vector<T>(Vector<T>::Zero(parameters.size())) : Vector<T>();
        };
        const WorkerState<T> first{parameters, parameters, zeros(settings_.inner != Inner::sgd),
                                   zeros(settings_.inner == Inner::adamw), 0};
        state.assign(static_cast<std::size_t>(workers), first);
    }

    /// Plays one round. `learning_rates[h-1]` is that of inner step h. A theta that is not finite
    /// afterwards halts its worker: no further round is possible for any worker that needs it.
    std::vector<WorkerRound<T>> round(const std::vector<Gradients<T>>& gradients,
                                      const std::vector<double>& learning_rates, const Graph& graph) {
        std::vector<WorkerRound<T>> result(state.size());
        for (std::size_t i = 0; i < state.size(); ++i) {
            // 1. Check.
            result[i].skipped = !all_finite(gradients[i]);
            // 2. Inner.
            WorkerState<T>& worker = state[i];
            result[i].x = worker.theta;
            if (!result[i].skipped)
                for (std::size_t h = 0; h < gradients[i].size(); ++h)
                    inner(worker, result[i].x, gradients[i][h], learning_rates[h]);
            // 3. Drift.
            const bool moved = !result[i].skipped && !gradients[i].empty();
            const T eta = T(settings_.eta);
            result[i].y = worker.theta;
            if (moved)
                result[i].y = worker.theta + (eta * (result[i].x - worker.theta));
        }
        for (std::size_t i = 0; i < state.size(); ++i) {
            // 4. Gossip. All y are made, and none has been changed yet.
            const Vector<T>& y = result[i].y;
            const auto met = neighbours(graph, static_cast<int>(i));
            const T a = T(settings_.alpha / 2);
            Vector<T> acc = Vector<T>::Zero(y.size());
            for (const Neighbour& j : met)
                acc = acc + (T(j.weight) * (y - result[static_cast<std::size_t>(j.worker)].y));
            result[i].z = y;
            if (!met.empty())
                result[i].z = y - (a * acc);
            // 5. Momentum.
            const Vector<T>& z = result[i].z;
            const Vector<T>& moves = settings_.momentum == Momentum::local ? y : z;
            const T gamma = T(settings_.gamma);
            WorkerState<T>& worker = state[i];
            worker.theta = z;
            if (settings_.gamma != 0.0)
                worker.theta = z + (gamma * (moves - worker.before));
            worker.before = moves;
        }
        ++rounds;
        return result;
    }

    /// 6. Whether theta of a worker is not finite.
    [[nodiscard]] bool halted(int worker) const {
        return !finite(state[static_cast<std::size_t>(worker)].theta);
    }

    std::vector<WorkerState<T>> state; ///< public, so that callers may record, save or restore it
    Index rounds = 0;                  ///< rounds made so far

  private:
    static bool finite(const Vector<T>& values) {
        return std::all_of(values.begin(), values.end(),
                           [](const T& value) { return std::isfinite(static_cast<double>(value)); });
    }
    static bool all_finite(const Gradients<T>& gradients) {
        return std::all_of(gradients.begin(), gradients.end(), finite);
    }

    /// x := inner(x, g, lr), with the inner optimizer's state.
    void inner(WorkerState<T>& worker, Vector<T>& x, const Vector<T>& g, double learning_rate) {
        ++worker.s;
        problem::HyperParameters hyper = settings_.hyper;
        if (settings_.inner == Inner::adamw)
            hyper.bias_correction = problem::BiasCorrection::adam;
        const reference::Coefficients<T> scalars(hyper, worker.s, learning_rate);
        const auto& [b1, a1, b2, a2, eps, lr, wd, decay, inv1, invs2] = scalars;
        Vector<T> u = g;
        if (settings_.inner == Inner::adams) {
            const Vector<T> M = (b1 * worker.m) + (a1 * g);
            u = reference::direction(hyper.bias_correction, scalars, M, worker.m, g);
            worker.m = M;
        }
        if (settings_.inner == Inner::adamw) {
            worker.m = (b1 * worker.m) + (a1 * g);
            worker.v = (b2 * worker.v) + (a2 * (g * g));
            u = (worker.m * inv1) / ((worker.v.sqrt() * invs2) + eps);
        }
        x = (x * decay) - (lr * u);
    }

    Settings settings_;
};

/// Section 16: the state for another number of workers. Each new worker begins with the mean of the
/// old ones; the same number changes no bit.
template <class T>
std::vector<WorkerState<T>> redistribute(std::vector<WorkerState<T>> state, int workers) {
    if (state.size() == static_cast<std::size_t>(workers))
        return state;
    WorkerState<T> mean = state.front();
    const auto mean_of = [&](Vector<T> WorkerState<T>::*part) {
        for (std::size_t i = 1; i < state.size(); ++i)
            mean.*part = (mean.*part) + (state[i].*part);
        mean.*part = (mean.*part) / T(static_cast<double>(state.size()));
    };
    mean_of(&WorkerState<T>::theta);
    mean_of(&WorkerState<T>::before);
    mean_of(&WorkerState<T>::m);
    mean_of(&WorkerState<T>::v);
    for (const WorkerState<T>& worker : state)
        mean.s = std::max(mean.s, worker.s);
    return std::vector<WorkerState<T>>(static_cast<std::size_t>(workers), mean);
}

// Compiled once, in instantiations.cpp.
extern template class Reference<float>;
extern template class Reference<double>;

} // namespace truestep::reference::gasloc
