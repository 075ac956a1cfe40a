// The effect of known bugs on a step of SCAPE or AdamS: each is one function of the right values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <truestep/verify/scape/run.hpp>

namespace truestep::verify::scape {

using reference::Coefficients;

/// The results of a known bug that a trace can show: each rank's own, or one for all.
template <class T>
struct Made {
    PerRank<T> residual;
    PerRank<T> first_moment;
    PerRank<T> parameters;
};

/// A step of the reference with everything that a known bug may use in place of the right value.
template <class T>
struct RightStep {
    const problem::Problem& problem;
    Index t; ///< the count of the bias correction
    problem::LearningRates rates;
    PerRank<T> g;
    typename Run<T>::State before;
    StepResults<T> results{};
    PerRank<T> c{};                    ///< each rank's local vector
    Vector<T> M{}, m{}, ghat{};        ///< packed on the mask, after clipping
    std::optional<Coordinates> next{}; ///< the mask of the next step, as recorded

    [[nodiscard]] Coefficients<T> scalars(Index exponent) const {
        return Coefficients<T>(problem.settings, exponent, rates.of(0));
    }
    [[nodiscard]] Vector<T> direction(const Coefficients<T>& scalars, const Vector<T>& moment,
                                      const Vector<T>& gradient) const {
        return reference::direction(problem.settings.bias_correction, scalars, moment, m, gradient);
    }
    [[nodiscard]] Vector<T> second_moment(const Coefficients<T>& scalars) const {
        const bool of_corrected = problem.settings.bias_correction == problem::BiasCorrection::momentum;
        const Vector<T> q = of_corrected ? Vector<T>(m * scalars.inv1) : m;
        return (scalars.b2 * (q * q)) + (scalars.a2 * (ghat * ghat));
    }
    [[nodiscard]] Vector<T> moved(const Vector<T>& u) const {
        Vector<T> w = before.w;
        reference::apply(problem, t, rates, results.mask, u, w);
        return w;
    }
    /// The same on each rank, by a function of its number.
    template <class Function>
    [[nodiscard]] PerRank<T> of_each(const Function& function) const {
        PerRank<T> all;
        for (std::size_t rank = 0; rank < g.size(); ++rank)
            all.push_back(function(rank));
        return all;
    }
    [[nodiscard]] Vector<T> spread(const Vector<T>& packed) const {
        Vector<T> full = Vector<T>::Zero(before.w.size());
        full(results.mask) = packed;
        return full;
    }
    [[nodiscard]] Vector<T> own_moment(std::size_t rank) const { return c[rank](results.mask); }
};

template <class T>
struct KnownBug {
    std::string name;
    std::function<void(const RightStep<T>& right, Made<T>& made)> make;
};

/// Bias correction: a count that is not the step's.
template <class T>
void add_counts(std::vector<KnownBug<T>>& all, Index frozen) {
    const auto add = [&](const std::string& name, const std::function<Index(Index)>& count) {
        all.push_back({name, [count](const RightStep<T>& right, Made<T>& made) {
                           const auto scalars = right.scalars(std::max<Index>(1, count(right.t)));
                           made.parameters = {right.moved(right.direction(scalars, right.M, right.ghat))};
                       }});
    };
    add("the bias correction is by t - 1 in place of t", [](Index t) { return t - 1; });
    add("the bias correction is by t + 1 in place of t", [](Index t) { return t + 1; });
    add("the bias correction is frozen at step " + std::to_string(frozen),
        [frozen](Index) { return frozen; });
}

/// The update, from a right first moment.
template <class T>
void add_updates(std::vector<KnownBug<T>>& all, const problem::Problem& problem) {
    const bool corrects_v = problem.settings.bias_correction == problem::BiasCorrection::adam;
    const auto add = [&](const std::string& name, const auto& root_of) {
        all.push_back({name, [root_of](const RightStep<T>& right, Made<T>& made) {
                           const auto scalars = right.scalars(right.t);
                           const Vector<T> root = root_of(scalars, right.second_moment(scalars));
                           made.parameters = {right.moved((right.M * scalars.inv1) / root)};
                       }});
    };
    using Scalars = Coefficients<T>;
    if (corrects_v) {
        add("eps stands inside the root, sqrt(v/C2 + eps)", [](const Scalars& s, const Vector<T>& v) {
            return Vector<T>(((v * (s.invs2 * s.invs2)) + s.eps).sqrt());
        });
        add("eps is added before the correction, (sqrt(v) + eps)/sqrt(C2)",
            [](const Scalars& s, const Vector<T>& v) { return Vector<T>((v.sqrt() + s.eps) * s.invs2); });
    }
    add(corrects_v ? "eps stands inside the root before the correction, sqrt(v + eps)/sqrt(C2)"
                   : "eps stands inside the root, sqrt(v + eps)",
        [](const Scalars& s, const Vector<T>& v) { return Vector<T>((v + s.eps).sqrt() * s.invs2); });
    all.push_back({"the update has the wrong sign", [](const RightStep<T>& right, Made<T>& made) {
                       const auto scalars = right.scalars(right.t);
                       const Vector<T> u = right.direction(scalars, right.M, right.ghat);
                       made.parameters = {right.moved(T(0.0) - u)};
                   }});
    const auto add_own = [&](const std::string& name, const auto& gradient_of) {
        all.push_back({name, [gradient_of](const RightStep<T>& right, Made<T>& made) {
                           const auto scalars = right.scalars(right.t);
                           made.parameters = right.of_each([&](std::size_t rank) {
                               return right.moved(
                                   right.direction(scalars, right.M, gradient_of(right, scalars, rank)));
                           });
                       }});
    };
    add_own("v is made from the rank's own gradient, not from the mean one",
            [](const RightStep<T>& right, const Scalars&, std::size_t rank) {
                return Vector<T>(right.g[rank](right.results.mask));
            });
    if (problem.algorithm == problem::Algorithm::scape)
        add_own("v is made from the gradient that is reconstructed from the rank's own local vector",
                [](const RightStep<T>& right, const Scalars& s, std::size_t rank) {
                    return Vector<T>((right.own_moment(rank) - (s.b1 * right.m)) / s.a1);
                });
}

/// The first moment is not exchanged.
template <class T>
void add_moments(std::vector<KnownBug<T>>& all, const problem::Problem& problem) {
    const auto own = [](const RightStep<T>& right) {
        return right.of_each([&](std::size_t rank) { return right.spread(right.own_moment(rank)); });
    };
    all.push_back({"first_moment stays local: each rank keeps its own, and updates by the mean",
                   [own](const RightStep<T>& right, Made<T>& made) { made.first_moment = own(right); }});
    const auto add = [&](const std::string& name, bool own_gradient) {
        all.push_back({name, [own, own_gradient](const RightStep<T>& right, Made<T>& made) {
                           const auto scalars = right.scalars(right.t);
                           made.first_moment = own(right);
                           made.parameters = right.of_each([&](std::size_t rank) {
                               const Vector<T> M = right.own_moment(rank);
                               const Vector<T> gradient =
                                   own_gradient ? Vector<T>((M - (scalars.b1 * right.m)) / scalars.a1)
                                                : right.ghat;
                               return right.moved(right.direction(scalars, M, gradient));
                           });
                       }});
    };
    add("first_moment stays local: it is not exchanged, and the update is by it", true);
    add("first_moment stays local: the update is by it, and v by the mean gradient", false);
    if (problem.algorithm == problem::Algorithm::scape)
        all.push_back({"first_moment stays local: it is b1*m + a1*g of the rank, on the mask, too",
                       [](const RightStep<T>& right, Made<T>& made) {
                           const auto scalars = right.scalars(right.t);
                           made.first_moment = right.of_each([&](std::size_t rank) {
                               return Vector<T>((scalars.b1 * right.before.m) +
                                                (scalars.a1 * right.g[rank]));
                           });
                       }});
}

template <class T>
void add_residuals(std::vector<KnownBug<T>>& all) {
    /// Changes values off the mask; on it the right value is what rounding has lost.
    const auto add_off = [&](const std::string& name, const auto& value_of) {
        all.push_back({name, [value_of](const RightStep<T>& right, Made<T>& made) {
                           made.residual = right.of_each([&](std::size_t rank) {
                               Vector<T> e = value_of(right, right.scalars(right.t), rank);
                               e(right.results.mask) = right.results.residual[rank](right.results.mask);
                               return e;
                           });
                       }});
    };
    add_off("the residual is counted twice: momentum and gradient are added to it again",
            [](const RightStep<T>& right, const Coefficients<T>& s, std::size_t rank) {
                return Vector<T>(((s.b1 * right.before.m) + (s.a1 * right.g[rank])) + right.c[rank]);
            });
    add_off("the residual drops the momentum of what is not on the mask",
            [](const RightStep<T>& right, const Coefficients<T>& s, std::size_t rank) {
                return Vector<T>((s.a1 * right.g[rank]) + right.before.e[rank]);
            });
    add_off("the residual is cleared everywhere, not on the mask alone",
            [](const RightStep<T>& right, const Coefficients<T>&, std::size_t) {
                return Vector<T>(Vector<T>::Zero(right.before.w.size()));
            });
    all.push_back({"the residual is not cleared where it was sent",
                   [](const RightStep<T>& right, Made<T>& made) { made.residual = right.c; }});
    all.push_back({"the residual is cleared by next_mask in place of mask",
                   [](const RightStep<T>& right, Made<T>& made) {
                       if (!right.next)
                           return;
                       made.residual = right.c;
                       for (Vector<T>& e : made.residual)
                           e(*right.next).setZero();
                   }});
}

/// The known bugs that a run of this problem can have, if it was right up to the step `frozen`.
template <class T>
std::vector<KnownBug<T>> known_bugs_of_a_step(const problem::Problem& problem, Index frozen) {
    std::vector<KnownBug<T>> all;
    if (problem.settings.bias_correction != problem::BiasCorrection::none)
        add_counts(all, std::max<Index>(1, frozen));
    add_updates(all, problem);
    if (problem.workers > 1)
        add_moments(all, problem);
    if (problem.algorithm == problem::Algorithm::scape)
        add_residuals(all);
    return all;
}

} // namespace truestep::verify::scape
