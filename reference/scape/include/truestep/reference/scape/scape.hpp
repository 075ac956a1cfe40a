// The reference of SCAPE (sections 4 and 7), over any scalar.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/reference/coefficients.hpp>
#include <truestep/reference/scape/check.hpp>
#include <truestep/reference/scape/folds.hpp>
#include <truestep/reference/scape/payload.hpp>
#include <truestep/reference/scape/selection.hpp>
#include <truestep/reference/update.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference::scape {

/// The state of SCAPE in a checkpoint, besides the problem and the schedule (section 7).
template <class T>
struct ScapeState {
    Index step = 0;               ///< steps taken
    Vector<T> w;                  ///< parameters, the same on all ranks
    Vector<T> m;                  ///< first moment, +0 off the last mask
    std::optional<Coordinates> S; ///< the coming mask; none before the first step, which makes its own
    PerRank<T> e;                 ///< residuals, one per rank
    /// E of section 21, for a payload of e5m2: the scale of the next step. None before the first
    /// step.
    std::optional<typename Rounding<T>::Exponent> exponent{};
};

/// The intermediate values of one step, under the specification's names; the packed vectors are in
/// the order of S.
template <class T>
struct ScapeStep {
    PerRank<T> c;        ///< local vectors, full length
    Coordinates S;       ///< the mask this step used
    Coordinates next;    ///< the mask it made
    Vector<T> exchanged; ///< M before clipping, packed
    Vector<T> ghat;      ///< the reconstructed mean gradient before clipping, packed
    Vector<T> M;         ///< the new first moment, packed
    std::optional<typename Rounding<T>::Exponent> E; ///< for a payload of e5m2: the scale
};

/// The scalar of the clip factor, which is computed in double and rounded once. A scalar that
/// carries more than a double specializes this.
template <class T>
struct ClipReal {
    using type = double;
};

/// SCAPE for P workers in lockstep, in one process: section 4, in its order.
template <class T>
class Scape {
  public:
    Scape(problem::Problem problem, problem::DensitySchedule density, Vector<T> parameters)
        : problem_(std::move(problem)), density_(std::move(density)) {
        problem::check(problem_);
        check_sizes(problem_.layout, 1, PerRank<T>{parameters}, "initial parameters");
        const Index d = problem_.layout.size();
        state.w = std::move(parameters);
        state.m = Vector<T>::Zero(d);
        state.e.assign(static_cast<std::size_t>(problem_.workers), Vector<T>::Zero(d));
    }

    using Real = typename ClipReal<T>::type;

    /// Takes the step, or throws: truestep::Error and RefusedStep with nothing changed, Halted when
    /// the state is lost. `norm` is that of a whole model's mean gradient, if these are only some
    /// of its segments.
    ScapeStep<T> step(const PerRank<T>& g, const problem::LearningRates& rates,
                      const std::optional<Real>& norm = {}) {
        auto& [steps, w, m, S_t, e, E] = state;
        const problem::HyperParameters& settings = problem_.settings;
        check_sizes(problem_.layout, problem_.workers, g, "gradient");
        check_sizes(problem_.layout, problem_.workers, e, "residual");

        // 1. Check. Nothing changes before this has passed on every rank.
        halt_unless_finite(w, m, steps, problem_.layout);
        refuse_unless_finite(g, problem_.layout);

        const Index t = steps + 1;
        const Coefficients<T> scalars(settings, t, rates.of(0));
        const auto& [b1, a1, b2, a2, eps, lr, wd, decay, inv1, invs2] = scalars;
        const double density_of_next = density_.at(t + 1);
        ScapeStep<T> result;

        // 2. Local.
        PerRank<T>& c = result.c;
        c = local(g, scalars);

        // 3. Next mask, from the owners' own c. Bootstrap: the first mask is made from c_1 too, at
        // once (with a density of 1 it is the full mask).
        result.next = select_mask(c, problem_, density_of_next);
        result.S = S_t ? *S_t : select_mask(c, problem_, density_.at(t));
        const Coordinates& S = result.S;

        // 4. Exchange: the mean on S_t of what travels; off S_t M is +0. bf16 cannot hold every c,
        // so this may throw, and nothing has changed so far.
        const Exponent own = exponent_of(c, S);
        const Exponent used = scale_of(own);
        const PerRank<T> p = travelling(c, S, used);
        const Vector<T> mean = mean_in_groups(p, settings.groups);
        Vector<T> M = mean_that_travels(mean, settings.payload, used);
        result.exchanged = M;

        // 5. Reconstruction of the mean gradient, from M and the previous moment alone.
        const Vector<T> m_on_S = m(S);
        Vector<T> ghat = reconstructed(M, m_on_S, scalars);
        result.ghat = ghat;

        // 6. Residual: what was sent is gone; what was not sent stays, and so does what rounding
        // has lost.
        for (std::size_t r = 0; r < e.size(); ++r) {
            e[r] = c[r];
            if (settings.payload == problem::Payload::fp32)
                e[r](S).setZero();
            else
                e[r](S) = c[r](S) - p[r];
        }
        if (problem::rounds_mean(settings.payload))
            keep_what_owners_lose(mean, M, S, problem_, e);

        // 7. Clip, also when s = 1. The residual is not touched.
        if (settings.clip_norm > 0.0) {
            const T s = clip_factor(norm ? *norm : norm_in_blocks<Real>(ghat, settings.norm), settings);
            ghat = ghat * s;
            M = (b1 * m_on_S) + (a1 * ghat);
        }

        // 8. Update on S_t; elsewhere only the decay. Rate and decay belong to the tensor's
        // parameter group.
        const Vector<T> u = direction(settings.bias_correction, scalars, M, m_on_S, ghat);
        apply(problem_, t, rates, S, u, w);
        m.setZero();
        m(S) = M;

        result.M = std::move(M);
        S_t = result.next;
        result.E = used;
        if (used)
            E = Rounding<T>::or_else(*own, *used);
        ++steps;
        halt_unless_finite(w, m, steps, problem_.layout);
        return result;
    }

    /// The mean gradient that a step would reconstruct, packed on its mask or a given one. Throws
    /// what the step would; changes nothing. A caller with a part of a model computes from it the
    /// norm of the whole before the step.
    [[nodiscard]] Vector<T> mean_gradient(const PerRank<T>& g, double learning_rate,
                                          const std::optional<Coordinates>& mask = {}) const {
        check_sizes(problem_.layout, problem_.workers, g, "gradient");
        halt_unless_finite(state.w, state.m, state.step, problem_.layout);
        refuse_unless_finite(g, problem_.layout);
        const Index t = state.step + 1;
        const Coefficients<T> scalars(problem_.settings, t, learning_rate);
        const PerRank<T> c = local(g, scalars);
        const std::optional<Coordinates>& coming = mask ? mask : state.S;
        const Coordinates S = coming ? *coming : select_mask(c, problem_, density_.at(t));
        const Exponent E = scale_of(exponent_of(c, S));
        const Vector<T> M = mean_that_travels(mean_in_groups(travelling(c, S, E), problem_.settings.groups),
                                              problem_.settings.payload, E);
        return reconstructed(M, state.m(S), scalars);
    }

    ScapeState<T> state; ///< public, so that callers may record, save or restore it

  private:
    [[nodiscard]] PerRank<T> local(const PerRank<T>& g, const Coefficients<T>& scalars) const {
        PerRank<T> c;
        for (std::size_t r = 0; r < g.size(); ++r)
            c.push_back(((scalars.b1 * state.m) + (scalars.a1 * g[r])) + state.e[r]);
        return c;
    }

    using Exponent = std::optional<typename Rounding<T>::Exponent>;

    [[nodiscard]] Exponent exponent_of(const PerRank<T>& c, const Coordinates& S) const {
        return problem::format_of(problem_.settings.payload) == problem::Payload::e5m2
                   ? Exponent(exponent_on(S, c))
                   : Exponent();
    }

    /// E of this step, left by the steps before; the first step uses its own.
    [[nodiscard]] Exponent scale_of(const Exponent& own) const {
        if (!own || state.exponent)
            return state.exponent;
        return Rounding<T>::or_else(*own, Rounding<T>::exactly(lowest_exponent));
    }

    /// The values of c that travel.
    [[nodiscard]] PerRank<T> travelling(const PerRank<T>& c, const Coordinates& S,
                                        const Exponent& E) const {
        PerRank<T> p = payloads(c, S, problem_.settings.payload, E);
        if (problem::format_of(problem_.settings.payload) == problem::Payload::bf16)
            refuse_unless_it_travels(p, c, S, problem_.layout);
        return p;
    }

    [[nodiscard]] static Vector<T> reconstructed(const Vector<T>& M, const Vector<T>& m_on_S,
                                                 const Coefficients<T>& scalars) {
        return (M - (scalars.b1 * m_on_S)) / scalars.a1;
    }

    static T clip_factor(const Real& norm, const problem::HyperParameters& settings) {
        using std::min;
        const Real ratio = Real(settings.clip_norm) / (norm + Real(1e-6));
        return T(min(ratio, Real(1.0)));
    }

    problem::Problem problem_;
    problem::DensitySchedule density_;
};

/// Section 7: the state for another number of workers. The algorithm conserves the mean residual,
/// so every new rank starts with the old ranks' mean; mask and moment are kept. The same number
/// changes no bit.
template <class T>
ScapeState<T> redistribute(ScapeState<T> state, int workers) {
    if (state.e.size() != static_cast<std::size_t>(workers)) {
        const Vector<T> mean = mean_in_rank_order(state.e);
        state.e.assign(static_cast<std::size_t>(workers), mean);
    }
    return state;
}

// Compiled once, in instantiations.cpp.
extern template class Scape<float>;
extern template class Scape<double>;

} // namespace truestep::reference::scape
