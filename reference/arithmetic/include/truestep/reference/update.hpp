// The direction u and the update of the parameters, which SCAPE and AdamS share (section 3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <truestep/problem/problem.hpp>
#include <truestep/reference/coefficients.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference {

/// u of section 3 from the new moment M, the PREVIOUS moment m and the gradient g (ghat under
/// SCAPE). They suffice for the second moment v = b2*m^2 + (1-b2)*g^2, so none is stored.
template <class T>
Vector<T> direction(problem::BiasCorrection correction, const Coefficients<T>& scalars, const Vector<T>& M,
                    const Vector<T>& m, const Vector<T>& g) {
    const auto& [b1, a1, b2, a2, eps, lr, wd, decay, inv1, invs2] = scalars;
    if (correction == problem::BiasCorrection::momentum) {
        const Vector<T> q = m * inv1;
        const Vector<T> v = (b2 * (q * q)) + (a2 * (g * g));
        return (M * inv1) / (v.sqrt() + eps);
    }
    const Vector<T> v = (b2 * (m * m)) + (a2 * (g * g));
    return (M * inv1) / ((v.sqrt() * invs2) + eps);
}

/// The update of w on the coordinates S by u, and the decay everywhere.
template <class T>
void apply(problem::DecayOrder order, const Coefficients<T>& scalars, const Coordinates& S,
           const Eigen::Ref<const std::type_identity_t<Vector<T>>>& u,
           Eigen::Ref<std::type_identity_t<Vector<T>>> w) {
    const auto& [b1, a1, b2, a2, eps, lr, wd, decay, inv1, invs2] = scalars;
    if (order == problem::DecayOrder::first) {
        w = w * decay;
        w(S) = w(S) - (lr * u);
    } else {
        const Vector<T> w_on_S = w(S);
        w = w - (lr * (wd * w));
        w(S) = w_on_S - (lr * (u + (wd * w_on_S)));
    }
}

/// The update of step t, each tensor with the learning rate and weight decay of its parameter
/// group.
template <class T>
void apply(const problem::Problem& problem, Index t, const problem::LearningRates& rates,
           const Coordinates& S, const Vector<T>& u, Vector<T>& w) {
    const problem::Layout& layout = problem.layout;
    auto first = S.begin();
    for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
        const Index group = layout.tensors()[tensor].param_group;
        const Index begin = layout.begin(tensor);
        const auto last = std::lower_bound(first, S.end(), layout.end(tensor));
        Coordinates here(first, last);
        for (Index& i : here)
            i -= begin;
        apply(problem.settings.decay_order, Coefficients<T>(problem.settings, t, rates.of(group), group),
              here, u.segment(first - S.begin(), last - first),
              w.segment(begin, layout.end(tensor) - begin));
        first = last;
    }
}

} // namespace truestep::reference
