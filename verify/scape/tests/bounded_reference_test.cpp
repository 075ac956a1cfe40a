// Runs the reference on the three scalars side by side.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/data.hpp>
#include <truestep/reference/scape/adams.hpp>
#include <truestep/reference/scape/scape.hpp>
#include <truestep/verify/scape/verify_trace.hpp>
#include <truestep/verify/scape/yardstick.hpp>

#include "bounded_support.hpp"
#include "support.hpp"

namespace truestep::verify::scape {
namespace {

using reference::PerRank;
using reference::Vector;

testing::AssertionResult all_within(const Vector<Bounded>& bounds, const Vector<float>& values) {
    if (bounds.size() != values.size())
        return testing::AssertionFailure() << values.size() << " values, " << bounds.size() << " bounds";
    for (Index i = 0; i < values.size(); ++i)
        if (const auto one = within(bounds[i], values[i]); !one)
            return testing::AssertionFailure() << "index " << i << ": " << one.message();
    return testing::AssertionSuccess();
}

template <class T>
PerRank<T> gradients(const RecordOptions& options, Index step) {
    PerRank<T> result;
    for (int rank = 0; rank < options.problem.workers; ++rank) {
        result.emplace_back(options.problem.layout.size());
        for (Index i = 0; i < result.back().size(); ++i) {
            const float value = gradient_value(options.data, options.seed, rank, step, i);
            if constexpr (std::is_same_v<T, float>)
                result.back()[i] = value;
            else
                result.back()[i] = T(widened(value));
        }
    }
    return result;
}

template <class T>
Vector<T> parameters(const RecordOptions& options) {
    Vector<T> result(options.problem.layout.size());
    for (Index i = 0; i < result.size(); ++i) {
        const float value = initial_parameter(options.data, options.seed, i);
        if constexpr (std::is_same_v<T, float>)
            result[i] = value;
        else
            result[i] = T(widened(value));
    }
    return result;
}

std::vector<RecordOptions> settings_of_runs() {
    std::vector<RecordOptions> all;
    for (const int workers : {1, 2, 3, 5, 8})
        for (const auto correction : {problem::BiasCorrection::none, problem::BiasCorrection::adam,
                                      problem::BiasCorrection::momentum})
            for (const double clip_norm : {0.0, 0.5})
                for (const DataClass data : {DataClass::normal, DataClass::wide, DataClass::subnormal}) {
                    problem::HyperParameters settings;
                    settings.bias_correction = correction;
                    settings.clip_norm = clip_norm;
                    RecordOptions options =
                        support::small_run(problem::Algorithm::scape, settings, workers);
                    options.data = data;
                    options.steps = 6;
                    all.push_back(options);
                }
    return all;
}

TEST(BoundedScape, EveryFp32ValueOfSeveralStepsLiesWithinTheBound) {
    double worst = 0.0;
    for (const RecordOptions& options : settings_of_runs()) {
        const auto density = problem::DensitySchedule::geometric(1.0, 0.25, 3);
        reference::scape::Scape<float> single(options.problem, density, parameters<float>(options));
        reference::scape::Scape<Bounded> bounded(options.problem, density, parameters<Bounded>(options));
        for (Index step = 1; step <= options.steps; ++step) {
            const auto of_single = single.step(gradients<float>(options, step), 0.01);
            const auto of_bounded = bounded.step(gradients<Bounded>(options, step), 0.01);
            ASSERT_EQ(of_single.S, of_bounded.S);
            for (std::size_t rank = 0; rank < of_single.c.size(); ++rank) {
                ASSERT_TRUE(all_within(of_bounded.c[rank], of_single.c[rank])) << "step " << step;
                ASSERT_TRUE(all_within(bounded.state.e[rank], single.state.e[rank])) << "step " << step;
            }
            ASSERT_TRUE(all_within(of_bounded.exchanged, of_single.exchanged)) << "step " << step;
            ASSERT_TRUE(all_within(of_bounded.ghat, of_single.ghat)) << "step " << step;
            ASSERT_TRUE(all_within(bounded.state.m, single.state.m)) << "step " << step;
            ASSERT_TRUE(all_within(bounded.state.w, single.state.w)) << "step " << step;
            for (Index i = 0; i < single.state.w.size(); ++i)
                worst = std::max(worst, share(bounded.state.w[i], single.state.w[i]));
            // This test is not about which of two nearly equal scores is greater.
            bounded.state.S = single.state.S;
        }
    }
    EXPECT_GT(worst, 0.05) << "a bound that nothing comes near proves little";
}

TEST(BoundedScape, IsCentredOnTheReferenceInDouble) {
    for (const RecordOptions& options : settings_of_runs()) {
        reference::scape::Scape<double> plain(options.problem, options.density,
                                              parameters<double>(options));
        reference::scape::Scape<Bounded> bounded(options.problem, options.density,
                                                 parameters<Bounded>(options));
        for (Index step = 1; step <= options.steps; ++step) {
            static_cast<void>(plain.step(gradients<double>(options, step), 0.01));
            static_cast<void>(bounded.step(gradients<Bounded>(options, step), 0.01));
            ASSERT_EQ(plain.state.S, bounded.state.S);
            for (Index i = 0; i < plain.state.w.size(); ++i) {
                ASSERT_EQ(plain.state.w[i], bounded.state.w[i].value());
                ASSERT_EQ(plain.state.m[i], bounded.state.m[i].value());
            }
        }
    }
}

TEST(BoundedScape, OffTheMaskTheMomentAndOnItTheResidualAreExactlyZero) {
    const RecordOptions options = support::small_run();
    reference::scape::Scape<Bounded> bounded(options.problem, options.density,
                                             parameters<Bounded>(options));
    const auto step = bounded.step(gradients<Bounded>(options, 1), 0.01);
    std::vector<bool> selected(81, false);
    for (const Index i : step.S)
        selected[static_cast<std::size_t>(i)] = true;
    for (Index i = 0; i < 81; ++i) {
        const Bounded& zero =
            selected[static_cast<std::size_t>(i)] ? bounded.state.e[1][i] : bounded.state.m[i];
        EXPECT_EQ(zero.value(), 0.0);
        EXPECT_EQ(zero.error(), 0.0);
    }
}

TEST(BoundedScape, TheBoundOfOneStepIsAFewRoundings) {
    const RecordOptions options = support::small_run();
    reference::scape::Scape<Bounded> bounded(options.problem, options.density,
                                             parameters<Bounded>(options));
    static_cast<void>(bounded.step(gradients<Bounded>(options, 1), 0.01));
    for (Index i = 0; i < 81; ++i) {
        const Bounded& w = bounded.state.w[i];
        EXPECT_LE(w.error(), 64.0 * Bounded::roundoff * (std::abs(w.value()) + 0.01)) << i;
    }
}

TEST(BoundedAdamS, EveryFp32ValueOfSeveralStepsLiesWithinTheBound) {
    for (const auto correction : {problem::BiasCorrection::none, problem::BiasCorrection::adam,
                                  problem::BiasCorrection::momentum}) {
        problem::HyperParameters settings;
        settings.bias_correction = correction;
        const RecordOptions options = support::small_run(problem::Algorithm::adams, settings, 7);
        reference::scape::AdamS<float> single(options.problem, parameters<float>(options));
        reference::scape::AdamS<Bounded> bounded(options.problem, parameters<Bounded>(options));
        for (Index step = 1; step <= 8; ++step) {
            const auto mean = single.step(gradients<float>(options, step), 0.01);
            ASSERT_TRUE(all_within(bounded.step(gradients<Bounded>(options, step), 0.01), mean));
            ASSERT_TRUE(all_within(bounded.state.m, single.state.m)) << "step " << step;
            ASSERT_TRUE(all_within(bounded.state.w, single.state.w)) << "step " << step;
        }
    }
}

} // namespace
} // namespace truestep::verify::scape
