// The scalars of a step, rounded once (section 5).
#pragma once

#include <cmath>

#include <truestep/problem/problem.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference {

/// base^t by binary exponentiation in double, from the lowest bit (section 5).
inline double power(double base, Index t) {
    double result = 1.0;
    for (; t > 0; t >>= 1) {
        if ((t & 1) != 0)
            result *= base;
        base *= base;
    }
    return result;
}

/// The scalars of one step and parameter group: computed in double, rounded once to T (section 5).
template <class T>
struct Coefficients {
    T b1, a1, b2, a2, eps, lr, wd, decay;
    T inv1;  ///< 1/C1, C1 = 1 - beta1^t; 1 where the correction has none
    T invs2; ///< 1/sqrt(C2), C2 = 1 - beta2^t; 1 where the correction has none

    Coefficients(const problem::HyperParameters& settings, Index t, double learning_rate,
                 Index param_group = 0)
        : b1(T(settings.beta1)), a1(T(1.0 - settings.beta1)), b2(T(settings.beta2)),
          a2(T(1.0 - settings.beta2)), eps(T(settings.epsilon)), lr(T(learning_rate)),
          wd(T(settings.weight_decay_of(param_group))),
          decay(T(1.0 - learning_rate * settings.weight_decay_of(param_group))), inv1(T(1.0)),
          invs2(T(1.0)) {
        if (settings.bias_correction != problem::BiasCorrection::none)
            inv1 = T(1.0 / (1.0 - power(settings.beta1, t)));
        if (settings.bias_correction == problem::BiasCorrection::adam)
            invs2 = T(1.0 / std::sqrt(1.0 - power(settings.beta2, t)));
    }
};

} // namespace truestep::reference
