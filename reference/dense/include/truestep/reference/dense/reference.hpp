// The reference of dense training under data parallelism (sections 34 to 37), over any scalar.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <truestep/problem/dense/settings.hpp>
#include <truestep/reference/bf16.hpp>
#include <truestep/reference/coefficients.hpp>
#include <truestep/reference/dense/mean.hpp>
#include <truestep/reference/dense/muon.hpp>
#include <truestep/reference/scape/check.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference::dense {

/// The state between two steps (section 39).
template <class T>
struct State {
    Index step = 0; ///< steps taken; refused ones do not count
    Vector<T> w;    ///< the fp32 masters
    Vector<T> m;    ///< first moment or momentum; +0 where a rule has none
    Vector<T> v;    ///< second moment; +0 where a rule has none
};

/// The intermediate values of a step, under the specification's names.
template <class T>
struct Step {
    Vector<T> M;    ///< the mean gradient
    Vector<T> ghat; ///< the same after clipping
    Vector<T> O;    ///< Muon's orthogonalized matrices; +0 elsewhere
};

/// The bf16 copies of the masters, as fp32 numbers.
template <class T>
[[nodiscard]] Vector<T> copies_of(const Vector<T>& w) {
    return w.unaryExpr([](const T& value) { return T(nearest_bf16(static_cast<double>(value))); });
}

/// All ranks in lockstep, in one process.
template <class T>
class Reference {
  public:
    Reference(Problem problem, Vector<T> parameters)
        : problem_(std::move(problem)), layout_((check(problem_), layout_of(problem_))) {
        scape::check_sizes(layout_, 1, PerRank<T>{parameters}, "initial parameters");
        state.m = Vector<T>::Zero(layout_.size());
        state.v = Vector<T>::Zero(layout_.size());
        state.w = std::move(parameters);
    }

    [[nodiscard]] const Problem& problem() const { return problem_; }
    [[nodiscard]] const problem::Layout& layout() const { return layout_; }

    /// Takes the step with each group's learning rate, or throws: truestep::Error and RefusedStep
    /// with nothing changed, Halted when the state is lost.
    Step<T> step(const Gradients<T>& gradients, const std::vector<double>& rates) {
        // 1. Check.
        check_step(gradients, rates);
        Step<T> made;
        // 2. Mean.
        made.M = mean_of(problem_, gradients);
        // 3. Clip, also when s = 1.
        made.ghat = made.M;
        if (problem_.clip_norm > 0.0)
            made.ghat = made.M * clip_factor<T>(problem_.clip_norm, GlobalNorm<T>::of(made.M, layout_));
        // 4. Update, each tensor by its group's rule.
        made.O = Vector<T>::Zero(layout_.size());
        ++state.step;
        for (std::size_t tensor = 0; tensor < problem_.tensors.size(); ++tensor)
            update(tensor, rates, made);
        scape::halt_unless_finite(state.w, state.m, state.step, layout_);
        return made;
    }

    State<T> state; ///< public, so that callers may record, save or restore it

  private:
    void check_step(const Gradients<T>& gradients, const std::vector<double>& rates) const {
        check_rates(problem_, rates);
        if (gradients.size() != static_cast<std::size_t>(problem_.ranks))
            throw Error("gradients of " + std::to_string(gradients.size()) +
                        " ranks given; the problem has " + std::to_string(problem_.ranks));
        for (std::size_t rank = 0; rank < gradients.size(); ++rank)
            scape::check_sizes(layout_, problem_.micro_batches[rank], gradients[rank],
                               "gradients of rank " + std::to_string(rank));
        scape::halt_unless_finite(state.w, state.m, state.step, layout_);
        for (std::size_t rank = 0; rank < gradients.size(); ++rank)
            for (const Vector<T>& g : gradients[rank])
                for (Index i = 0; i < g.size(); ++i)
                    if (const auto value = static_cast<double>(g[i]);
                        !(std::abs(value) <= scape::greatest_gradient))
                        throw scape::RefusedStep(static_cast<int>(rank), i, value, layout_);
    }

    using Part = Eigen::Ref<Vector<T>>; ///< one tensor's stretch of a vector

    void update(std::size_t tensor, const std::vector<double>& rates, Step<T>& made) {
        const auto index = static_cast<std::size_t>(layout_.tensors()[tensor].param_group);
        const Group& group = problem_.groups[index];
        const Index begin = layout_.begin(tensor);
        const Index size = layout_.end(tensor) - begin;
        const Vector<T> g = made.ghat.segment(begin, size);
        Part w = state.w.segment(begin, size);
        Part m = state.m.segment(begin, size);
        if (group.rule == Rule::sgd)
            sgd(group, rates[index], g, w, m);
        else if (is_adam(group.rule))
            adam(group, rates[index], g, w, m, state.v.segment(begin, size));
        else
            made.O.segment(begin, size) =
                muon(group, rates[index], problem_.tensors[tensor].shape, g, w, m);
    }

    /// The gradient with the decay of a rule that adds it there.
    static Vector<T> decayed(const Group& group, const Vector<T>& g, const Part& w) {
        return group.weight_decay == 0.0 ? g : Vector<T>(g + (T(group.weight_decay) * w));
    }

    void sgd(const Group& group, double rate, const Vector<T>& gradient, Part w, Part m) const {
        const Vector<T> g = decayed(group, gradient, w);
        Vector<T> u = g;
        if (group.momentum != 0.0) {
            const T mu = T(group.momentum);
            if (state.step == 1)
                m = g;
            else
                m = (mu * m) + (T(1.0 - group.dampening) * g);
            u = m;
            if (group.nesterov)
                u = g + (mu * m);
        }
        w = w - (T(rate) * u);
    }

    void adam(const Group& group, double rate, const Vector<T>& gradient, Part w, Part m, Part v) const {
        const problem::HyperParameters hyper{.beta1 = group.beta1,
                                             .beta2 = group.beta2,
                                             .epsilon = group.epsilon,
                                             .weight_decay = group.weight_decay,
                                             .bias_correction = problem::BiasCorrection::adam};
        const Coefficients<T> scalars(hyper, state.step, rate);
        const auto& [b1, a1, b2, a2, eps, lr, wd, decay, inv1, invs2] = scalars;
        const Vector<T> g = group.rule == Rule::adam ? decayed(group, gradient, w) : gradient;
        m = (b1 * m) + (a1 * g);
        v = (b2 * v) + (a2 * (g * g));
        Vector<T> below = (v.sqrt() * invs2) + eps;
        if (group.epsilon_place == EpsilonPlace::uncorrected)
            below = (v.sqrt() + eps) * invs2;
        const Vector<T> u = (m * inv1) / below;
        if (group.rule == Rule::adamw)
            w = w * decay;
        w = w - (lr * u);
    }

    static Vector<T> muon(const Group& group, double rate, const std::vector<Index>& shape,
                          const Vector<T>& g, Part w, Part m) {
        const T mu = T(group.momentum);
        const T rest = T(1.0 - group.momentum);
        m = (mu * m) + (rest * g);
        Vector<T> u = m;
        if (group.nesterov)
            u = (mu * m) + (rest * g);
        const Matrix<T> U = Eigen::Map<const Matrix<T>>(u.data(), shape[0], shape[1]);
        const Matrix<T> of_u = Orthogonalizer<T>::of(group, U);
        const Vector<T> O = Eigen::Map<const Vector<T>>(of_u.data(), of_u.size());
        w = w * T(1.0 - rate * group.weight_decay);
        w = w - (T(rate * rate_factor(group.scale, shape[0], shape[1])) * O);
        return O;
    }

    Problem problem_;
    problem::Layout layout_;
};

// Compiled once, in instantiations.cpp.
extern template class Reference<float>;
extern template class Reference<double>;
extern template class Reference<Bf16>;

} // namespace truestep::reference::dense
