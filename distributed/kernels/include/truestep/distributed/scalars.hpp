// The scalars of a step as fp32, computed in double and rounded once.
#pragma once

#include <cmath>

#include <truestep/distributed/element.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::distributed {

/// base^t in the order of section 5.
inline double power(double base, problem::Index t) {
    double result = 1.0;
    for (; t > 0; t >>= 1) {
        if ((t & 1) != 0)
            result *= base;
        base *= base;
    }
    return result;
}

/// The scalars of the t-th step of `workers` workers whose gradients are averaged.
inline Scalars scalars_of(const problem::HyperParameters& settings, int workers, problem::Index t,
                          double learning_rate) {
    const auto once = [](double value) { return static_cast<float>(value); };
    Scalars s;
    s.b1 = once(settings.beta1);
    s.a1 = once(1.0 - settings.beta1);
    s.b2 = once(settings.beta2);
    s.a2 = once(1.0 - settings.beta2);
    s.epsilon = once(settings.epsilon);
    s.learning_rate = once(learning_rate);
    s.decay = once(1.0 - learning_rate * settings.weight_decay);
    s.inv1 = settings.bias_correction == problem::BiasCorrection::none
                 ? 1.0F
                 : once(1.0 / (1.0 - power(settings.beta1, t)));
    s.invs2 = settings.bias_correction == problem::BiasCorrection::adam
                  ? once(1.0 / std::sqrt(1.0 - power(settings.beta2, t)))
                  : 1.0F;
    s.workers = once(static_cast<double>(workers));
    return s;
}

inline Scalars scalars_of(const problem::Problem& problem, problem::Index t, double learning_rate) {
    return scalars_of(problem.settings, problem.workers, t, learning_rate);
}

} // namespace truestep::distributed
