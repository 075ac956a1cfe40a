// Derives the problem, density schedule, learning rates and parameters from a case of SCAPE.
#include <truestep/properties/scape/case.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace truestep::properties::scape {

Index Case::size() const {
    Index sum = 0;
    for (const problem::Tensor& tensor : tensors)
        sum += tensor.size;
    return sum;
}

problem::Problem problem_of(const Case& run) {
    problem::HyperParameters settings;
    settings.beta1 = run.beta1;
    settings.beta2 = run.beta2;
    settings.epsilon = run.epsilon;
    settings.weight_decay = run.weight_decay;
    settings.clip_norm = run.clip_norm;
    settings.norm = run.norm;
    settings.payload = run.payload;
    settings.groups = groups_of(run);
    settings.bias_correction = run.bias_correction;
    auto problem = problem::make_problem(problem::Algorithm::scape, run.workers,
                                         problem::Layout(run.tensors), run.partition, settings);
    if (run.owners_in_turn)
        for (std::size_t number = 0; number < problem.segments.size(); ++number)
            problem.segments[number].owner =
                static_cast<int>(number % static_cast<std::size_t>(run.workers));
    return problem;
}

double jumping_density(const Case& run, Index t) {
    const std::array<double, 6> cycle{
        run.start, run.density, run.density, run.start, (run.start + run.density) / 2, 1.0};
    return cycle[static_cast<std::size_t>(t - 1) % cycle.size()];
}

problem::DensitySchedule schedule_of(const Case& run) {
    switch (run.schedule) {
    case DensityRule::geometric:
        return problem::DensitySchedule::geometric(run.start, run.density, run.warm_up);
    case DensityRule::linear:
        return problem::DensitySchedule::linear(run.start, run.density, run.warm_up);
    case DensityRule::jumps:
        break;
    }
    std::vector<double> values;
    // One step more than is taken, since its mask is made, and one for properties that add a step.
    for (Index t = 1; t <= run.steps + static_cast<Index>(run.script.size()) + 3; ++t)
        values.push_back(jumping_density(run, t));
    return problem::DensitySchedule::recorded(std::move(values));
}

double learning_rate_of(const Case& run, Index step) {
    constexpr double usual = 0x1p-8;
    const int t = static_cast<int>(std::min<Index>(step, 1000));
    switch (run.rate) {
    case RateRule::constant:
        return usual;
    case RateRule::warm_up:
        return t == 1 ? 0.0 : std::ldexp(usual, std::min(t - 5, 0));
    case RateRule::to_zero:
        return step >= run.steps && run.script.empty() ? 0.0 : std::ldexp(usual, -std::min(t - 1, 40));
    case RateRule::wild:
        break;
    }
    constexpr std::array<double, 5> rates{0x1p-8, 0.003, 0.0, 0x1p-3, 1e-7};
    return rates[static_cast<std::size_t>(t - 1) % rates.size()];
}

std::vector<float> parameters_of(const Case& run) {
    std::vector<float> w;
    for (Index index = 0; index < run.size(); ++index)
        w.push_back(run.data == problem::DataClass::zeros
                        ? (index % 2 == 0 ? -0.0F : 0.0F)
                        : problem::initial_parameter(run.data, run.seed, index));
    return w;
}

} // namespace truestep::properties::scape
