// The plain implementation's rules, value by value, with the known bugs of rules.
#include "plain_rules.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/reference/dense/muon.hpp>

namespace truestep::properties::dense {

namespace {

float once(double value) {
    return static_cast<float>(value);
}

/// base^t in the order of section 5.
double power(double base, Index t) {
    double result = 1.0;
    for (; t > 0; t /= 2, base *= base)
        result = t % 2 == 1 ? result * base : result;
    return result;
}

} // namespace

PlainRules::PlainRules(Bug bug, Problem problem)
    : bug_(bug), problem_(std::move(problem)), layout_(layout_of(problem_)), groups_(groups_of(problem_)) {}

/// Whether the tensor is orthogonalized as a whole.
bool PlainRules::takes_matrix(std::size_t tensor) const {
    if (bug_ == plain_sgd || bug_ == all_dealt_to_adamw)
        return false;
    if (bug_ == dealt_by_extents && problem_.groups.front().rule == Rule::muon)
        return problem_.tensors[tensor].shape.size() == 2;
    return is_muon(problem_, tensor);
}

std::vector<int> PlainRules::owners(bool sharded) const {
    std::vector<int> owners(static_cast<std::size_t>(layout_.size()), -1);
    if (!sharded)
        return owners;
    Index elementwise = 0;
    for (std::size_t tensor = 0; tensor < layout_.tensors().size(); ++tensor)
        elementwise += takes_matrix(tensor) ? 0 : layout_.tensors()[tensor].size;
    int next = 0;
    Index before = 0;
    for (std::size_t tensor = 0; tensor < layout_.tensors().size(); ++tensor) {
        const int whole = takes_matrix(tensor) ? next++ % problem_.ranks : -1;
        for (Index i = layout_.begin(tensor); i < layout_.end(tensor); ++i)
            owners[static_cast<std::size_t>(i)] =
                whole >= 0 ? whole : static_cast<int>(before++ * problem_.ranks / elementwise);
    }
    return owners;
}

void PlainRules::update(const std::vector<double>& rates, const Floats& mean,
                        const std::vector<std::size_t>& own, PlainState& state) const {
    std::vector<bool> done(layout_.tensors().size(), false);
    for (const std::size_t i : own) {
        if (bug_ == last_coordinate_left_out && i + 1 == state.w.size())
            continue;
        const std::size_t tensor = layout_.tensor_at(static_cast<Index>(i));
        const std::size_t group = groups_[tensor];
        Step step{problem_.groups[group], rates[bug_ == first_groups_rate ? 0 : group], state.steps};
        if (bug_ == first_groups_decay)
            step.group.weight_decay = problem_.groups[0].weight_decay;
        if (takes_matrix(tensor)) {
            // A tensor that its group does not orthogonalize gets the settings of the group that does.
            if (step.group.rule != Rule::muon)
                step.group = problem_.groups.front();
            if (!done[tensor])
                muon(step, tensor, mean, state);
            done[tensor] = true;
        } else {
            if (bug_ == all_dealt_to_adamw && step.group.rule == Rule::muon)
                step.group.rule = Rule::adamw;
            elementwise(step, mean[i], state.w[i], state.m[i], state.v[i]);
        }
    }
}

void PlainRules::elementwise(const Step& step, float gradient, float& w, float& m, float& v) const {
    const auto& [group, rate, t] = step;
    const float lr = once(rate);
    if (bug_ == default_decay && group.rule == Rule::adamw && group.weight_decay == 0.0)
        w = w * once(1.0 - rate * 0.01);
    if (bug_ == plain_sgd) {
        w = w - (lr * gradient);
        return;
    }
    float g = gradient;
    const bool added = is_coupled(group.rule) || bug_ == decay_added_to_gradient;
    const bool decays = group.weight_decay != 0.0 && bug_ != decay_forgotten;
    if (added && decays)
        g = g + (once(group.weight_decay) * w);
    if (group.rule == Rule::sgd) {
        float u = g;
        if (group.momentum != 0.0) {
            const float mu = once(group.momentum);
            const float rest = bug_ == dampening_forgotten ? 1.0F : once(1.0 - group.dampening);
            m = t == 1 && bug_ != momentum_starts_at_zero ? g : (mu * m) + (rest * g);
            u = group.nesterov && bug_ != nesterov_forgotten ? g + (mu * m) : m;
        }
        w = w - (lr * u);
        return;
    }
    m = (once(group.beta1) * m) + (once(1.0 - group.beta1) * g);
    v = (once(group.beta2) * v) +
        (once(1.0 - group.beta2) * (bug_ == square_forgotten ? std::abs(g) : g * g));
    const float inv1 = bug_ == no_first_correction ? 1.0F : once(1.0 / (1.0 - power(group.beta1, t)));
    const float invs2 =
        bug_ == no_second_correction ? 1.0F : once(1.0 / std::sqrt(1.0 - power(group.beta2, t)));
    const float epsilon = once(group.epsilon);
    float below = (std::sqrt(v) * invs2) + epsilon;
    if (group.epsilon_place == EpsilonPlace::uncorrected)
        below = (std::sqrt(v) + epsilon) * invs2;
    if (bug_ == epsilon_inside_root)
        below = std::sqrt((v * (invs2 * invs2)) + epsilon);
    if (!added)
        w = w * (decays ? once(1.0 - rate * group.weight_decay) : 1.0F);
    w = w - (lr * ((m * inv1) / below));
}

void PlainRules::muon(const Step& step, std::size_t tensor, const Floats& mean, PlainState& state) const {
    using reference::mapl::Matrix;
    auto [group, rate, t] = step;
    const std::vector<Index>& shape = problem_.tensors[tensor].shape;
    const auto begin = static_cast<std::size_t>(layout_.begin(tensor));
    const float mu = once(group.momentum);
    const float rest = bug_ == own_momentum ? 1.0F : once(1.0 - group.momentum);
    if (bug_ == one_iteration_less)
        group.iterations -= 1;
    if (bug_ == iteration_in_fp32)
        group.iteration = Iteration::fp32;
    const bool swapped = bug_ == scale_of_transposed;
    const double factor = bug_ == scale_forgotten
                              ? 1.0
                              : rate_factor(group.scale, shape[swapped ? 1 : 0], shape[swapped ? 0 : 1]);
    const int times = bug_ == once_a_micro_batch ? problem_.micro_batches.front() : 1;
    for (int time = 0; time < times; ++time) {
        Matrix<float> u(shape[0], shape[1]);
        for (Index i = 0; i < u.size(); ++i) {
            const std::size_t at = begin + static_cast<std::size_t>(i);
            const float g = mean[at];
            state.m[at] = (mu * state.m[at]) + (rest * g);
            u.data()[i] = group.nesterov && bug_ != nesterov_forgotten ? (mu * state.m[at]) + (rest * g)
                                                                       : state.m[at];
        }
        Matrix<float> made = u;
        if (bug_ == not_normalized)
            for (int iteration = 0; iteration < group.iterations; ++iteration)
                made = reference::dense::iterated(group, iteration, made);
        else
            made = reference::dense::Orthogonalizer<float>::of(group, u);
        const float decay = bug_ == decay_forgotten ? 1.0F : once(1.0 - rate / times * group.weight_decay);
        const float by = once(rate / times * factor);
        for (Index i = 0; i < made.size(); ++i) {
            float& w = state.w[begin + static_cast<std::size_t>(i)];
            w = (w * decay) - (by * made.data()[i]);
        }
    }
}

} // namespace truestep::properties::dense
