// The reference of dense AdamS (section 3), over any scalar.
#pragma once

#include <cstddef>
#include <numeric>
#include <utility>

#include <truestep/problem/problem.hpp>
#include <truestep/reference/coefficients.hpp>
#include <truestep/reference/scape/check.hpp>
#include <truestep/reference/scape/folds.hpp>
#include <truestep/reference/update.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference::scape {

/// Dense AdamS (section 3) on the mean gradient of P workers.
template <class T>
class AdamS {
  public:
    struct State {
        Index step = 0;
        Vector<T> w;
        Vector<T> m;
    };

    AdamS(problem::Problem problem, Vector<T> parameters)
        : problem_(std::move(problem)), everywhere_(static_cast<std::size_t>(problem_.layout.size())) {
        problem::check(problem_);
        check_sizes(problem_.layout, 1, PerRank<T>{parameters}, "initial parameters");
        std::iota(everywhere_.begin(), everywhere_.end(), Index{0});
        state.m = Vector<T>::Zero(problem_.layout.size());
        state.w = std::move(parameters);
    }

    /// Takes the step and returns the mean gradient, or throws: truestep::Error and RefusedStep with
    /// nothing changed, Halted when the state is lost.
    Vector<T> step(const PerRank<T>& gradients, const problem::LearningRates& rates) {
        auto& [steps, w, m] = state;
        check(gradients);

        const Coefficients<T> scalars(problem_.settings, steps + 1, rates.of(0));
        Vector<T> g = mean_in_rank_order(gradients);
        const Vector<T> M = (scalars.b1 * m) + (scalars.a1 * g);
        const Vector<T> u = direction(problem_.settings.bias_correction, scalars, M, m, g);
        apply(problem_, steps + 1, rates, everywhere_, u, w);
        m = M;
        ++steps;
        halt_unless_finite(w, m, steps, problem_.layout);
        return g;
    }

    /// Throws the errors of a step without changing anything.
    void check(const PerRank<T>& gradients) const {
        check_sizes(problem_.layout, problem_.workers, gradients, "gradient");
        halt_unless_finite(state.w, state.m, state.step, problem_.layout);
        refuse_unless_finite(gradients, problem_.layout);
    }

    State state; ///< public, so that callers may record, save or restore it

  private:
    problem::Problem problem_;
    Coordinates everywhere_;
};

// Compiled once, in instantiations.cpp.
extern template class AdamS<float>;
extern template class AdamS<double>;

} // namespace truestep::reference::scape
