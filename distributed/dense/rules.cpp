// Updates a range of values by SGD, Adam or AdamW.
#include <truestep/distributed/dense/rules.hpp>

#include <algorithm>
#include <cmath>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/scalars.hpp>

namespace truestep::distributed::dense {

Scalars adam_scalars(const Group& group, double rate, Index t) {
    problem::HyperParameters hyper;
    hyper.beta1 = group.beta1;
    hyper.beta2 = group.beta2;
    hyper.epsilon = group.epsilon;
    hyper.weight_decay = group.weight_decay;
    hyper.bias_correction = problem::BiasCorrection::adam;
    return scalars_of(hyper, 1, t, rate);
}

namespace {

ElementwiseStep sgd_step(const Group& group, double rate, Index t) {
    return [decay = static_cast<float>(group.weight_decay), mu = static_cast<float>(group.momentum),
            rest = static_cast<float>(1.0 - group.dampening), lr = static_cast<float>(rate),
            decays = group.weight_decay != 0.0, keeps = group.momentum != 0.0, nesterov = group.nesterov,
            first = t == 1](Index begin, Index end, const Vectors& of) {
        for (Index i = begin; i < end; ++i) {
            const float g = decays ? of.g[i] + (decay * of.w[i]) : of.g[i];
            float u = g;
            if (keeps) {
                of.m[i] = first ? g : (mu * of.m[i]) + (rest * g);
                u = nesterov ? g + (mu * of.m[i]) : of.m[i];
            }
            of.w[i] = of.w[i] - (lr * u);
        }
    };
}

ElementwiseStep adam_step(const Group& group, double rate, Index t) {
    const Scalars scalars = adam_scalars(group, rate, t);
    const bool corrected = group.epsilon_place == EpsilonPlace::corrected;
    // The usual AdamW has a kernel for each instruction set.
    if (group.rule == Rule::adamw && corrected)
        return [scalars](Index begin, Index end, const Vectors& of) {
            static_cast<void>(host::inner(InnerRule::adamw, scalars, begin, end,
                                          {of.g, of.w, of.m, of.v, of.w, of.m, of.v}));
        };
    const bool adds = group.rule == Rule::adam && group.weight_decay != 0.0;
    const auto added = static_cast<float>(group.weight_decay);
    const float decay = group.rule == Rule::adamw ? scalars.decay : 1.0F;
    return [=](Index begin, Index end, const Vectors& of) {
        for (Index i = begin; i < end; ++i) {
            const float g = adds ? of.g[i] + (added * of.w[i]) : of.g[i];
            of.m[i] = element::moment(scalars, of.m[i], g);
            of.v[i] = element::second_moment(scalars, of.v[i], g);
            const float root = std::sqrt(of.v[i]);
            const float below = corrected ? (root * scalars.invs2) + scalars.epsilon
                                          : (root + scalars.epsilon) * scalars.invs2;
            of.w[i] = element::update(scalars, of.w[i] * decay, (of.m[i] * scalars.inv1) / below);
        }
    };
}

} // namespace

ElementwiseStep elementwise_step(const Group& group, double rate, Index t) {
    return group.rule == Rule::sgd ? sgd_step(group, rate, t) : adam_step(group, rate, t);
}

float clip_factor(double clip_norm, double norm) {
    return static_cast<float>(std::min(clip_norm / (norm + 1e-6), 1.0));
}

} // namespace truestep::distributed::dense
