// Property 6 of section 8: at density 1, SCAPE is dense AdamS on the mean gradient.
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <scape/reference/adams.hpp>

#include "assertions.hpp"

namespace scape::properties {
namespace {

reference::AdamS<float> dense_twin(const Case& run) {
    problem::Problem problem = problem_of(run);
    problem.algorithm = problem::Algorithm::adams;
    return {problem, parameters_of(run)};
}

RC_GTEST_PROP(Dense, EqualsAdamsInEveryBitWhereAllIsExact, ()) {
    Case run = *exact_case();
    run.density = 1.0;
    run.workers = *one_of<int>({1, 2, 4, 8}).as("workers");
    classify(run);
    auto optimizer = optimizer_of(run);
    auto twin = dense_twin(run);
    for (Index t = 1; t <= run.steps; ++t) {
        const auto made = optimizer.step(gradients_of(run, t), learning_rate);
        const Vector<float> mean_gradient = twin.step(gradients_of(run, t), learning_rate);
        assert_same_bits("m", run, twin.state.m, optimizer.state.m);
        assert_same_bits("w", run, twin.state.w, optimizer.state.w);
        assert_same_bits("ghat", run, mean_gradient, made.ghat);
    }
}

RC_GTEST_PROP(Dense, OfOneWorkerHasTheMomentOfAdams, ()) {
    Case run = *unclipped_case();
    run.density = 1.0;
    run.workers = 1;
    RC_TAG(run.betas.first, run.betas.second);
    auto optimizer = optimizer_of(run);
    auto twin = dense_twin(run);
    for (Index t = 1; t <= run.steps; ++t) {
        optimizer.step(gradients_of(run, t), learning_rate);
        twin.step(gradients_of(run, t), learning_rate);
        // As numbers: c ends with + e, which makes +0 of a -0.
        RC_ASSERT((optimizer.state.m == twin.state.m).all());
    }
}

/// sqrt(v), corrected, plus epsilon: the denominator of section 3, in double.
double denominator(const problem::HyperParameters& settings, Index t, double m, double g) {
    const reference::Coefficients<float> scalars(settings, t, learning_rate);
    const auto b2 = static_cast<double>(scalars.b2);
    const auto a2 = static_cast<double>(scalars.a2);
    const double q = settings.bias_correction == problem::BiasCorrection::momentum
                         ? m * static_cast<double>(scalars.inv1)
                         : m;
    return std::sqrt(b2 * q * q + a2 * g * g) * static_cast<double>(scalars.invs2) +
           static_cast<double>(scalars.eps);
}

// The gradient that SCAPE updates with is M - b1*m, divided by a1. With u = 2^-24, M brings one rounding of
// its own size, u*|M|, and the division makes u*|M|/a1 of it: as M is b1*m + a1*g, the error of ghat
// relative to g grows with |m|/|g|. To that come the roundings of a1*g, of the difference and of the
// quotient, 3u|g|. The parameters follow through |1/D - 1/D'| of the two denominators, the rest is
// roundings of each.
RC_GTEST_PROP(Dense, OfOneWorkerLiesWithinTheBoundOfTheReconstruction, ()) {
    Case run = *unclipped_case();
    run.density = 1.0;
    run.workers = 1;
    run.data =
        *one_of<verify::DataClass>({verify::DataClass::normal, verify::DataClass::sparse}).as("data");
    RC_TAG(run.betas.first, run.betas.second);
    const problem::HyperParameters settings = problem_of(run).settings;
    constexpr double u = 0x1p-24;
    auto optimizer = optimizer_of(run);
    auto twin = dense_twin(run);
    for (Index t = 1; t <= run.steps; ++t) {
        const ScapeState<float> before = optimizer.state;
        twin.state = {before.step, before.w, before.m};
        const auto made = optimizer.step(gradients_of(run, t), learning_rate);
        const Vector<float> gradient = twin.step(gradients_of(run, t), learning_rate);
        const reference::Coefficients<float> scalars(settings, t, learning_rate);
        for (Index index = 0; index < run.size(); ++index) {
            const auto m = static_cast<double>(before.m[index]);
            const auto g = static_cast<double>(gradient[index]);
            const auto ghat = static_cast<double>(made.ghat[index]);
            const auto M = static_cast<double>(made.M[index]);
            const double a1 = static_cast<double>(scalars.a1);
            ASSERT_AT(t, index, std::abs(ghat - g) <= (u * std::abs(M) / a1 + 3 * u * std::abs(g)) * 1.001);

            const double D = denominator(settings, t, m, g);
            const double D_hat = denominator(settings, t, m, ghat);
            const double numerator = std::abs(M * static_cast<double>(scalars.inv1));
            const double of_denominators = numerator * std::abs(D - D_hat) / (D * D_hat);
            const double of_roundings = 10 * u * (numerator / D + numerator / D_hat);
            const double of_parameters = 2 * u * std::abs(static_cast<double>(before.w[index]));
            const double bound = (learning_rate * (of_denominators + of_roundings) + of_parameters) * 1.001;
            const double apart = std::abs(static_cast<double>(optimizer.state.w[index]) -
                                          static_cast<double>(twin.state.w[index]));
            ASSERT_AT(t, index, apart <= bound);
        }
    }
}

} // namespace
} // namespace scape::properties
