// Properties of the rules: what each makes of a mean, for whom, and what clipping does.
#include <algorithm>
#include <cmath>
#include <functional>

#include <truestep/problem/text.hpp>

#include "trial.hpp"

namespace truestep::properties::dense {

namespace {

using Doubles = std::vector<double>;

/// The mean in double, and the mean of magnitudes, by which its rounding is measured.
struct Mean {
    Doubles values;
    Doubles sizes;
};
Mean mean_of(const Scenario& scenario, Index step) {
    Mean mean{Doubles(scenario.start.size()), Doubles(scenario.start.size())};
    const auto divisor = static_cast<double>(divisor_of(scenario.problem));
    const Index all = micro_batches_of(scenario.problem);
    for (Index i = 0; i < all; ++i) {
        const Floats gradient = scenario.gradient(scenario.problem, i, step);
        for (std::size_t at = 0; at < gradient.size(); ++at) {
            mean.values[at] += static_cast<double>(gradient[at]) / divisor;
            mean.sizes[at] += std::abs(static_cast<double>(gradient[at])) / divisor;
        }
    }
    return mean;
}

void near(Trial& trial, const Doubles& expected, const Floats& actual, Index step,
          const std::function<double(std::size_t)>& limit, const std::string& whose) {
    for (std::size_t i = 0; i < expected.size(); ++i)
        trial.expect(std::abs(expected[i] - static_cast<double>(actual[i])) <= limit(i), step,
                     trial.layout().describe(static_cast<Index>(i)) + " is " + shortest(actual[i]) +
                         " after step " + std::to_string(step) + "; " + whose + " is " +
                         shortest(expected[i]));
}

// 11. SGD without momentum and decay is w - lr*M.
void sgd(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    Floats before = trial.scenario.start;
    for (Index step = 1; step <= trial.scenario.steps; ++step) {
        const Mean mean = mean_of(trial.scenario, step);
        const double rate = trial.scenario.rates(step).front();
        Doubles after;
        Doubles sizes;
        for (std::size_t i = 0; i < before.size(); ++i) {
            after.push_back(static_cast<double>(before[i]) - rate * mean.values[i]);
            sizes.push_back(std::abs(static_cast<double>(before[i])) + rate * mean.sizes[i]);
        }
        near(
            trial, after, all[0].steps.at(step).parameters, step,
            [&](std::size_t i) { return 1e-5 * sizes[i]; }, "w - lr*M");
        before = all[0].steps.at(step).parameters;
    }
}

Case plain_sgd_case(Case run) {
    run = by_hand(run, Rule::sgd);
    run.momentum = 0.0;
    run.decay = 0.0;
    run.nesterov = 0;
    return run;
}

// 12. Adam's first step is g/(|g| + epsilon), whatever the betas are, and decay is where the rule has it.
void first_step(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    const Case& run = trial.run_case;
    const Mean mean = mean_of(trial.scenario, 1);
    const double rate = trial.scenario.rates(1).front();
    const double epsilon = run.epsilon_place == EpsilonPlace::corrected
                               ? run.epsilon
                               : run.epsilon / std::sqrt(1.0 - run.beta2);
    std::vector<double> after;
    std::vector<double> limits;
    for (std::size_t i = 0; i < mean.values.size(); ++i) {
        const auto w = static_cast<double>(trial.scenario.start[i]);
        const double g = mean.values[i] + (run.rule == Rule::adam ? run.decay * w : 0.0);
        const double kept = run.rule == Rule::adamw ? w * (1.0 - rate * run.decay) : w;
        after.push_back(kept - rate * g / (std::abs(g) + epsilon));
        // Rounding of the mean matters where gradients cancel.
        const double off = 1e-6 * (mean.sizes[i] + run.decay * std::abs(w));
        limits.push_back(1e-4 * rate + 1e-6 * std::abs(w) +
                         rate * std::min(2.0, 2.0 * off / (std::abs(g) + epsilon)));
    }
    near(
        trial, after, all[0].steps.at(1).parameters, 1, [&](std::size_t i) { return limits[i]; },
        "w - lr g/(|g| + epsilon)");
}

Case adam_case(Case run) {
    run = by_hand(run, run.seed % 2 == 0 ? Rule::adam : Rule::adamw);
    run.steps = 1;
    return run;
}

// 12. Adam with coupled and with decoupled decay agree where there is none.
void coupled(Trial& trial) {
    Scenario other = trial.scenario;
    for (Problem* problem : {&other.problem, &other.after})
        for (Group& group : problem->groups)
            group.rule = group.rule == Rule::adam    ? Rule::adamw
                         : group.rule == Rule::adamw ? Rule::adam
                                                     : group.rule;
    trial.same_as(other, "those of the other place of decay");
}

Case adam_without_decay(Case run) {
    run.rule = run.seed % 2 == 0 ? Rule::adam : Rule::adamw;
    run.decay = 0.0;
    run.groups = Dealing::one;
    run.refused = 0;
    return run;
}

/// The scenario of one tensor alone, with its group.
Scenario alone(const Scenario& scenario, std::size_t tensor) {
    Scenario one = scenario;
    const std::size_t group = groups_of(scenario.problem)[tensor];
    one.problem.tensors = {scenario.problem.tensors[tensor]};
    one.problem.groups = {scenario.problem.groups[group]};
    one.problem.groups.front().roles = {scenario.problem.tensors[tensor].role};
    one.start = part_of(scenario.problem, tensor, scenario.start);
    one.gradient = [=](const Problem&, Index micro_batch, Index step) {
        return part_of(scenario.problem, tensor, scenario.gradient(scenario.problem, micro_batch, step));
    };
    one.rates = [=](Index step) { return std::vector<double>{scenario.rates(step)[group]}; };
    return one;
}

// 4. A tensor is trained by its role's rule, whatever others there are and whatever its shape is.
void dealing(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    const Problem& problem = trial.scenario.problem;
    for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor) {
        Scenario one = alone(trial.scenario, tensor);
        if (!is_muon(problem, tensor))
            one.problem.tensors.front().shape = {problem.tensors[tensor].size()};
        const std::vector<RankRecord> others = trial.completed(one);
        for (Index step = 1; step <= trial.scenario.steps; ++step)
            trial.same(others[0].steps.at(step).parameters,
                       part_of(problem, tensor, all[0].steps.at(step).parameters), step,
                       "the parameters of tensor " + problem.tensors[tensor].name,
                       "those of this tensor alone, by its role's rule");
    }
}

Case dealt(Case run) {
    run = uninterrupted(run);
    run.clip = 0.0;
    return run;
}

double norm_of(const Doubles& values) {
    double squares = 0.0;
    for (const double value : values)
        squares += value * value;
    return std::sqrt(squares);
}

// 6. Clipping by the norm of all tensors on all ranks; below it nothing changes.
void clip(Trial& trial) {
    Scenario scenario = trial.scenario;
    std::ranges::fill(scenario.start, 0.0F);
    scenario.rates = [](Index) { return std::vector<double>{1.0}; };
    const std::vector<RankRecord> clipped = trial.completed(scenario);
    const Mean mean = mean_of(scenario, 1);
    const double norm = norm_of(mean.values);
    const double factor = std::min(1.0, scenario.problem.clip_norm / (norm + 1e-6));
    trial.kind(factor < 1.0, "above the norm");
    Doubles expected;
    for (const double value : mean.values)
        expected.push_back(-value * factor);
    // Where gradients cancel, the mean's rounding is in the norm, too.
    const double off = 1e-5 * (1.0 + norm_of(mean.sizes) / (norm + 1e-30));
    near(
        trial, expected, clipped[0].steps.at(1).parameters, 1,
        [&](std::size_t i) { return off * (std::abs(expected[i]) + factor * mean.sizes[i]); },
        "the clipped mean's negative");
    Scenario wide = scenario;
    wide.problem.clip_norm = 1e30;
    Scenario none = scenario;
    none.problem.clip_norm = 0.0;
    const std::vector<RankRecord> with = trial.completed(wide);
    trial.same(trial.completed(none)[0].steps.at(1).parameters, with[0].steps.at(1).parameters, 1,
               "the parameters clipped by a norm that is not reached", "those without clipping");
}

Case clipped(Case run) {
    run = plain_sgd_case(run);
    run.steps = 1;
    run.clip = 0.125;
    return run;
}

} // namespace

std::vector<gate::Property> rule_properties() {
    return {property(11, "sgd", "SGD without momentum and decay is w - lr*M.", sgd,
                     {"several ranks", "micro-batches"}, plain_sgd_case),
            property(12, "first_step", "Adam's first step is lr g/(|g| + epsilon) beside its decay.",
                     first_step, {"several ranks"}, adam_case),
            property(12, "coupled", "Adam and AdamW agree where there is no decay.", coupled,
                     {"several steps"}, adam_without_decay),
            property(4, "dealing",
                     "A tensor is trained by its role's rule, whatever its shape and the others are.",
                     dealing, {"several tensors", "muon"}, dealt),
            property(6, "clip", "The mean is clipped by the norm of all tensors, and not below it.", clip,
                     {"above the norm", "several ranks"}, clipped)};
}

} // namespace truestep::properties::dense
