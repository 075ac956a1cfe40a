#pragma once

#include <utility>

#include <truestep/problem/problem.hpp>
#include <truestep/reference/coefficients.hpp>
#include <truestep/reference/scape/check.hpp>
#include <truestep/reference/scape/folds.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference::scape {

/// AdamW, the dense baseline: Adam with a stored second moment and decoupled decay, on the mean
/// gradient.
///     M = b1*m + a1*g     V = b2*v + a2*g^2     w = w*decay - lr * (M/C1) / (sqrt(V)/sqrt(C2) + eps)
/// Its bias correction is always Adam's. It ignores the problem's choice, which is for AdamS.
template <class T>
class AdamW {
  public:
    struct State {
        Index step = 0;
        Vector<T> w;
        Vector<T> m;
        Vector<T> v;
    };

    AdamW(problem::Problem problem, Vector<T> parameters) : problem_(std::move(problem)) {
        problem_.settings.bias_correction = problem::BiasCorrection::adam;
        problem::check(problem_);
        check_sizes(problem_.layout, 1, PerRank<T>{parameters}, "initial parameters");
        state.m = Vector<T>::Zero(problem_.layout.size());
        state.v = Vector<T>::Zero(problem_.layout.size());
        state.w = std::move(parameters);
    }

    void step(const PerRank<T>& gradients, double learning_rate) {
        auto& [steps, w, m, v] = state;
        check_sizes(problem_.layout, problem_.workers, gradients, "gradient");
        halt_unless_finite(w, m, steps, problem_.layout);
        refuse_unless_finite(gradients, problem_.layout);

        const Coefficients<T> scalars(problem_.settings, steps + 1, learning_rate);
        const auto& [b1, a1, b2, a2, eps, lr, wd, decay, inv1, invs2] = scalars;
        const Vector<T> g = mean_in_rank_order(gradients);
        m = (b1 * m) + (a1 * g);
        v = (b2 * v) + (a2 * (g * g));
        const Vector<T> u = (m * inv1) / ((v.sqrt() * invs2) + eps);
        w = (w * decay) - (lr * u);
        ++steps;
        halt_unless_finite(w, m, steps, problem_.layout);
    }

    State state;

  private:
    problem::Problem problem_;
};

// Compiled once, in instantiations.cpp.
extern template class AdamW<float>;
extern template class AdamW<double>;

} // namespace truestep::reference::scape
