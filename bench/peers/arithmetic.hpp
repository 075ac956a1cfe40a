#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <scape/distributed/element.hpp>
#include <scape/problem/problem.hpp>

namespace scape::peers {

using distributed::Scalars;

/// The scalars of step t, as section 5 has them: in double, rounded once.
inline Scalars scalars_of(const problem::HyperParameters& hyper, int ranks, problem::Index t,
                          double learning_rate) {
    const auto power = [](double base, problem::Index exponent) {
        double result = 1.0;
        for (; exponent > 0; exponent >>= 1, base *= base)
            if ((exponent & 1) != 0)
                result *= base;
        return result;
    };
    const auto once = [](double value) { return static_cast<float>(value); };
    const bool adam = hyper.bias_correction == problem::BiasCorrection::adam;
    const bool none = hyper.bias_correction == problem::BiasCorrection::none;
    Scalars s;
    s.b1 = once(hyper.beta1);
    s.a1 = once(1.0 - hyper.beta1);
    s.b2 = once(hyper.beta2);
    s.a2 = once(1.0 - hyper.beta2);
    s.epsilon = once(hyper.epsilon);
    s.learning_rate = once(learning_rate);
    s.decay = once(1.0 - learning_rate * hyper.weight_decay);
    s.inv1 = none ? 1.0F : once(1.0 / (1.0 - power(hyper.beta1, t)));
    s.invs2 = adam ? once(1.0 / std::sqrt(1.0 - power(hyper.beta2, t))) : 1.0F;
    s.workers = static_cast<float>(ranks);
    return s;
}

/// bf16: the upper half of an fp32 number, rounded to nearest even. Of finite numbers.
inline std::uint16_t to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

inline float from_bf16(std::uint16_t half) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U);
}

} // namespace scape::peers
