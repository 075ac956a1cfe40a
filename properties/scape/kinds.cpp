// Kinds of cases that users meet, each with the least percentage of cases of `reference` or `machine`.
// docs/drawn.md lists what is drawn.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support.hpp"

namespace truestep::properties::scape {

namespace {

struct Kind {
    const char* name;
    int demanded;
    bool (*is)(const Case&);
};

bool has_several_steps(const Case& run) {
    return run.steps > 1;
}

template <class Is>
bool any_step(const Case& run, const Is& is) {
    for (Index t = 1; t <= run.steps; ++t)
        if (is(t))
            return true;
    return false;
}

/// Whether is(n, rho*n, k) holds for any segment that is not always dense, at any step.
template <class Is>
bool any_segment(const Case& run, const Is& is) {
    const problem::Problem problem = problem_of(run);
    const auto density = schedule_of(run);
    return any_step(run, [&](Index t) {
        return std::ranges::any_of(problem.segments, [&](const problem::Segment& segment) {
            const double rho = density.at(t);
            return !segment.always_dense && segment.size() > 0 &&
                   is(segment.size(), rho * static_cast<double>(segment.size()),
                      selected_count(segment, rho, problem.settings.k_rounding));
        });
    });
}

bool density_falls(const Case& run) {
    const auto density = schedule_of(run);
    return any_step(run, [&](Index t) { return density.at(t + 1) < density.at(t); });
}

const std::vector<Kind>& of_a_run() {
    using problem::DataClass;
    static const std::vector<Kind> all{
        {"more than 8 ranks", 5, [](const Case& run) { return run.workers > 8; }},
        {"fewer parameters than ranks", 5, [](const Case& run) { return run.size() < run.workers; }},
        {"the learning rate changes", 40,
         [](const Case& run) { return has_several_steps(run) && run.rate != RateRule::constant; }},
        {"a rate that begins at 0", 8,
         [](const Case& run) { return has_several_steps(run) && run.rate == RateRule::warm_up; }},
        {"a rate that ends at 0", 8,
         [](const Case& run) { return has_several_steps(run) && run.rate == RateRule::to_zero; }},
        {"a step at rate 0 between others", 5,
         [](const Case& run) { return run.steps > 3 && run.rate == RateRule::wild; }},
        {"decay while the rate changes", 15,
         [](const Case& run) {
             return has_several_steps(run) && run.rate != RateRule::constant && run.weight_decay > 0.0;
         }},
        {"the density falls", 20, density_falls},
        {"the density jumps and repeats", 8,
         [](const Case& run) { return run.steps > 2 && run.schedule == DensityRule::jumps; }},
        {"k is 1 of several", 20,
         [](const Case& run) {
             return any_segment(run, [](Index n, double, Index k) { return k == 1 && n > 1; });
         }},
        {"k is all but one", 8,
         [](const Case& run) {
             return any_segment(run, [](Index n, double, Index k) { return k == n - 1 && n > 1; });
         }},
        {"rho*n ends in one half", 5,
         [](const Case& run) {
             return any_segment(
                 run, [](Index, double share, Index) { return share - std::floor(share) == 0.5; });
         }},
        {"beta1 is 0", 10, [](const Case& run) { return run.beta1 == 0.0; }},
        {"beta2 is 0", 8, [](const Case& run) { return run.beta2 == 0.0; }},
        {"a beta near 1", 25, [](const Case& run) { return std::max(run.beta1, run.beta2) >= 0.999; }},
        {"a subnormal epsilon", 5,
         [](const Case& run) {
             return static_cast<float>(run.epsilon) < std::numeric_limits<float>::min();
         }},
        {"a huge epsilon", 8, [](const Case& run) { return run.epsilon > 1e6; }},
        {"clipped to far below the norm", 8,
         [](const Case& run) { return run.clip_norm > 0.0 && run.clip_norm < 0.1; }},
        {"clipping, and the norm is below", 8, [](const Case& run) { return run.clip_norm > 1e5; }},
        {"equal scores", 5, [](const Case& run) { return run.data == DataClass::ties; }},
        {"gradients of +0 and -0", 5, [](const Case& run) { return run.data == DataClass::zeros; }},
        {"subnormal gradients", 5, [](const Case& run) { return run.data == DataClass::subnormal; }},
        {"gradients at the limit of 2^56", 5, [](const Case& run) { return run.data == DataClass::limit; }},
        {"a tensor larger than a bucket", 15, [](const Case& run) {
             return run.bucket_bytes > 0 && std::ranges::any_of(run.tensors, [&](const auto& tensor) {
                        return tensor.size * static_cast<Index>(sizeof(float)) > run.bucket_bytes;
                    });
         }}};
    return all;
}

/// How often a script saves, and how often at a step that has been saved before.
std::pair<int, int> checkpoints(const Case& run) {
    int all = 0;
    int again = 0;
    bool moved = true;
    for (const Operation& operation : run.script) {
        moved = moved || operation.kind == Operation::Kind::step;
        if (operation.kind != Operation::Kind::restart && operation.kind != Operation::Kind::undo)
            continue;
        again += moved ? 0 : 1;
        moved = false;
        ++all;
    }
    return {all, again};
}

Index restarts(const Case& run) {
    return std::ranges::count(run.script, Operation::Kind::restart, &Operation::kind);
}

const std::vector<Kind>& of_a_script() {
    static const std::vector<Kind> all{
        {"several restarts", 20, [](const Case& run) { return restarts(run) > 1; }},
        {"a restart while the density changes", 15,
         [](const Case& run) {
             return restarts(run) > 0 &&
                    (run.schedule == DensityRule::jumps || (run.warm_up > 0 && run.start != run.density));
         }},
        {"several checkpoints", 30, [](const Case& run) { return checkpoints(run).first > 1; }},
        {"two checkpoints of one step", 15, [](const Case& run) { return checkpoints(run).second > 0; }}};
    return all;
}

void tag(Trial& trial, const std::vector<Kind>& kinds) {
    for (const Kind& kind : kinds)
        trial.classify(kind.is(trial.run()), kind.name);
}

void demand(std::map<std::string, int>& demands, const std::vector<Kind>& kinds) {
    for (const Kind& kind : kinds)
        demands[kind.name] = kind.demanded;
}

} // namespace

void classify_world(Trial& trial) {
    tag(trial, of_a_run());
}

void classify_script(Trial& trial) {
    tag(trial, of_a_script());
}

void demand_world(std::map<std::string, int>& demands) {
    demand(demands, of_a_run());
}

void demand_script(std::map<std::string, int>& demands) {
    demand(demands, of_a_script());
}

} // namespace truestep::properties::scape
