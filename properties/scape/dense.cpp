// Property 6 of section 8: at density 1, SCAPE is dense AdamS on the mean gradient.
#include <cmath>

#include <truestep/reference/scape/adams.hpp>

#include "generators.hpp"
#include "support.hpp"
#include "vectors.hpp"

namespace truestep::properties::scape {

namespace {

using reference::PerRank;
using reference::Vector;

PerRank<float> to_vectors(const Gradients& gradients) {
    PerRank<float> result;
    for (const auto& gradient : gradients)
        result.push_back(to_vector(gradient));
    return result;
}

reference::scape::AdamS<float> dense_twin(const Case& run) {
    problem::Problem problem = problem_of(run);
    problem.algorithm = problem::Algorithm::adams;
    problem.settings.groups.clear(); // where sums are exact, no bit shows their order
    return {problem, to_vector(parameters_of(run))};
}

void equals_adams(Trial& trial) {
    const RunRecording& history = trial(trial.steps());
    auto twin = dense_twin(trial.run());
    for (std::size_t step = 0; step < history.after.size(); ++step) {
        const Action& action = trial.runs().back().scenario.actions[step];
        twin.step(to_vectors(action.gradients), action.learning_rate);
        const ObservedState& view = history.after[step].views.front();
        const Index t = static_cast<Index>(step) + 1;
        trial.same_bits(verify::scape::Phase::exchange, "first_moment", t, 0, to_std(twin.state.m),
                        view.moment);
        trial.same_bits(verify::scape::Phase::update, "parameters", t, 0, to_std(twin.state.w),
                        view.parameters);
    }
}

/// The denominator of section 3, in double: the corrected sqrt(v) plus epsilon.
double denominator(const problem::HyperParameters& settings, Index t, double m, double g) {
    constexpr double learning_rate = 0x1p-8; // it does not depend on it
    const reference::Coefficients<float> scalars(settings, t, learning_rate);
    const auto b2 = static_cast<double>(scalars.b2);
    const auto a2 = static_cast<double>(scalars.a2);
    const double q = settings.bias_correction == problem::BiasCorrection::momentum
                         ? m * static_cast<double>(scalars.inv1)
                         : m;
    return std::sqrt(b2 * q * q + a2 * g * g) * static_cast<double>(scalars.invs2) +
           static_cast<double>(scalars.eps);
}

// SCAPE updates with the gradient (M - b1*m) / a1. With u = 2^-24, M has one rounding of its own size,
// u*|M|, which the division turns into u*|M|/a1. As M is b1*m + a1*g, the error of ghat relative to g grows
// with |m|/|g|. The roundings of a1*g, of the difference and of the quotient add 3u|g|. The parameters
// differ by |1/D - 1/D'| of the two denominators, and by the roundings of each.
void lies_within_the_bound(Trial& trial) {
    const Case& run = trial.run();
    const problem::HyperParameters settings = problem_of(run).settings;
    constexpr double u = 0x1p-24;
    const RunRecording& history = trial(trial.steps());
    const RecordedRun& ran = trial.runs().back();
    auto twin = dense_twin(run);
    for (std::size_t step = 0; step < history.after.size(); ++step) {
        const ObservedState& was = before(ran, step, 0);
        const ObservedState& is = history.after[step].views.front();
        const double learning_rate = ran.scenario.actions[step].learning_rate;
        twin.state = {static_cast<Index>(step), to_vector(was.parameters), to_vector(was.moment)};
        const Vector<float> gradient =
            twin.step(to_vectors(ran.scenario.actions[step].gradients), learning_rate);
        const Index t = static_cast<Index>(step) + 1;
        const reference::Coefficients<float> scalars(settings, t, learning_rate);
        for (Index index = 0; index < run.size(); ++index) {
            const auto at = static_cast<std::size_t>(index);
            const auto m = static_cast<double>(was.moment[at]);
            const auto g = static_cast<double>(gradient[index]);
            const auto M = static_cast<double>(is.moment[at]);
            const float b1m = scalars.b1 * was.moment[at];
            const auto ghat = static_cast<double>((is.moment[at] - b1m) / scalars.a1);
            const double a1 = static_cast<double>(scalars.a1);
            // Compared as numbers: c ends with + e, which turns -0 into +0.
            trial.expect_at(is.moment[at] == twin.state.m[index], t, index, "M is not that of AdamS");
            trial.expect_at(std::abs(ghat - g) <= (u * std::abs(M) / a1 + 3 * u * std::abs(g)) * 1.001, t,
                            index,
                            "the reconstructed gradient is further from g than the reconstruction allows");
            const double D = denominator(settings, t, m, g);
            const double D_hat = denominator(settings, t, m, ghat);
            const double numerator = std::abs(M * static_cast<double>(scalars.inv1));
            const double of_denominators = numerator * std::abs(D - D_hat) / (D * D_hat);
            const double of_roundings = 10 * u * (numerator / D + numerator / D_hat);
            const double of_parameters = 2 * u * std::abs(static_cast<double>(was.parameters[at]));
            const double bound = (learning_rate * (of_denominators + of_roundings) + of_parameters) * 1.001;
            const double apart =
                std::abs(static_cast<double>(is.parameters[at]) - static_cast<double>(twin.state.w[index]));
            trial.expect_at(apart <= bound, t, index,
                            "w is " + std::to_string(apart / bound) +
                                " times the bound away from that of AdamS");
        }
    }
}

} // namespace

std::vector<Property> dense_properties() {
    const auto full = [](Case& run) {
        run.density = 1.0;
        run.start = 1.0;
        run.schedule = DensityRule::geometric;
    };
    const auto powers = [full](Case& run) {
        needs_exactness(run);
        full(run);
        run.workers = run.workers == 3 ? 1 : run.workers == 5 ? 2 : run.workers == 7 ? 4 : run.workers;
    };
    const auto one_worker = [full](Case& run) {
        needs_no_clipping(run);
        full(run);
        run.payload = problem::Payload::fp32; // dense AdamS has no residual
        run.groups.clear();                   // and adds on one level
        run.workers = 1;
        run.silent = nobody;
        run.data = run.data == problem::DataClass::sparse ? run.data : problem::DataClass::normal;
    };
    return {
        {6,
         "dense.exact",
         "At density 1 on dyadic data every bit of w and m is that of dense AdamS.",
         exact_case,
         equals_adams,
         {{"several ranks", 40}, "several steps"},
         [](const Implementation&) { return std::string(); },
         powers},
        {6,
         "dense.bound",
         "At density 1 with one rank M is that of AdamS, and w within the bound of the reconstruction.",
         unclipped_case,
         lies_within_the_bound,
         {"several steps"},
         only_scape,
         one_worker},
    };
}

} // namespace truestep::properties::scape
