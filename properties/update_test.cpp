// Properties 10 and 12 of section 8: how far a parameter moves.
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <scape/verify/comparator.hpp>

#include "assertions.hpp"

namespace scape::properties {
namespace {

RC_GTEST_PROP(Update, ALateCoordinateMovesByOneFactorWhateverItsResidual, ()) {
    Case run = *unclipped_case();
    run.betas = *one_of<Betas>({{0.9, 0.95}, {0.9, 0.999}}).as("betas");
    run.density = *one_of<double>({0.5, 0.1, 0.01}).as("density");
    run.steps += 2;
    run.data = *one_of<verify::DataClass>({verify::DataClass::normal, verify::DataClass::wide}).as("data");
    problem::Problem problem = problem_of(run);
    problem.settings.bias_correction = problem::BiasCorrection::none;
    problem.settings.weight_decay = 0.0;
    problem.settings.epsilon = 0x1p-149;
    const auto factor = static_cast<float>((1.0 - run.betas.first) / std::sqrt(1.0 - run.betas.second));
    RC_ASSERT(std::abs(factor - (run.betas.second < 0.99 ? 0.447F : 3.16F)) < 3e-3F);

    reference::Scape<float> optimizer(problem, schedule_of(run), parameters_of(run));
    Index late = 0;
    for (Index t = 1; t <= run.steps; ++t) {
        const ScapeState<float> before = optimizer.state;
        // From zero, and with a power of two for lr, w shows u in every bit.
        optimizer.state.w.setZero();
        const ScapeStep<float> made = optimizer.step(gradients_of(run, t), learning_rate);
        for (const Index index : made.S) {
            const float M = optimizer.state.m[index];
            // Where v, the square, is neither a subnormal nor an infinity.
            const bool square_is_safe = std::abs(M) > 0x1p-50F && std::abs(M) < 0x1p50F;
            if (before.m[index] != 0.0F || !square_is_safe)
                continue;
            late += t > 1 ? 1 : 0;
            const float moved = -optimizer.state.w[index] / static_cast<float>(learning_rate);
            ASSERT_AT(t, index, verify::ulp_distance(std::copysign(factor, M), moved) <= 4.0);
        }
    }
    RC_CLASSIFY(late > 0, "late coordinates");
    RC_TAG(run.betas.second);
}

RC_GTEST_PROP(Update, ZeroGradientsFromTheStartOnlyDecay, ()) {
    const Case run = *any_case();
    classify(run);
    auto optimizer = optimizer_of(run);
    const PerRank<float> silence(static_cast<std::size_t>(run.workers), Vector<float>::Zero(run.size()));
    ScapeState<float> expected = optimizer.state;
    const auto decay = static_cast<float>(1.0 - learning_rate * run.weight_decay);
    for (Index t = 1; t <= run.steps; ++t) {
        optimizer.step(silence, learning_rate);
        for (float& parameter : expected.w)
            parameter *= decay;
        expected.step = t;
        expected.S = optimizer.state.S;
        assert_same_bits("step " + std::to_string(t), run, expected, optimizer.state);
    }
}

} // namespace
} // namespace scape::properties
