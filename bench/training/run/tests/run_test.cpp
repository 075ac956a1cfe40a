// Tests trainings' bits, counted bytes and stages, and the checks of plans and text windows.
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/training/draw.hpp>
#include <truestep/training/run.hpp>

#include "peers/peer.hpp"
#include "windows.hpp"

namespace truestep::training {
namespace {

using testing::HasSubstr;

/// A text in which each symbol has two possible successors.
Text two_ways(std::size_t size) {
    Text text{"two ways", 11, {}, {}, std::log(2.0)};
    std::uint64_t symbol = 0;
    for (std::size_t i = 0; i < size; ++i) {
        symbol = (symbol * 3 + 1 + 5 * (drawn({77, i}) & 1U)) % text.symbols;
        (i < size * 9 / 10 ? text.learned : text.measured).push_back(static_cast<std::uint8_t>(symbol));
    }
    return text;
}

Plan tiny() {
    Plan plan;
    plan.shape = {11, 8, 16, 1, 2};
    plan.ranks = 3;
    plan.steps = 20;
    plan.batch = 2;
    plan.learning_rate = 0.01;
    plan.warm_up = 4;
    plan.measure_every = 6;
    plan.measured_windows = 10;
    return plan;
}

std::string refusal(const Plan& plan, const Text& text, const std::string& optimizer = "dense") {
    try {
        check(plan, text, {optimizer});
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(Training, HasTheSameBitsAgain) {
    const Text text = two_ways(3000);
    for (const char* optimizer : {"dense", "scape:0.1", "gasloc:3", "diloco:7"}) {
        const Curve once = train(text, tiny(), optimizer, 4);
        const Curve again = train(text, tiny(), optimizer, 4);
        ASSERT_EQ(once.points.size(), again.points.size());
        for (std::size_t i = 0; i < once.points.size(); ++i) {
            EXPECT_EQ(once.points[i].step, again.points[i].step) << optimizer;
            EXPECT_EQ(once.points[i].loss, again.points[i].loss) << optimizer;
            EXPECT_EQ(once.points[i].bytes, again.points[i].bytes) << optimizer;
        }
        EXPECT_NE(train(text, tiny(), optimizer, 5).points.back().loss, once.points.back().loss);
    }
}

TEST(Training, OfOneSeedBeginsAlikeAndCountsWhatIsSent) {
    const Text text = two_ways(3000);
    const Curve dense = train(text, tiny(), "adams", 4);
    const Curve sparse = train(text, tiny(), "scape:0.1", 4);
    EXPECT_EQ(dense.points.front().loss, sparse.points.front().loss);
    EXPECT_EQ(dense.points.front().step, 0U);
    EXPECT_EQ(dense.points.back().step, 20U);
    EXPECT_EQ(dense.optimizer, "adams");
    EXPECT_LT(sparse.points.back().bytes, dense.points.back().bytes / 3);
    const peers::Choice choice = peers::parse("dense", layout_of(tiny().shape).size());
    const double formula = 20 * peers::formula_bytes("dense", choice.setting, 3);
    const auto counted = static_cast<double>(dense.points.back().bytes - dense.points.front().bytes);
    EXPECT_EQ(counted, formula);
}

// With one rank at density 1, SCAPE is AdamS, and the curve shows it.
TEST(Training, OfDensityOneIsThatOfAdamS) {
    const Text text = two_ways(3000);
    Plan plan = tiny();
    plan.ranks = 1;
    const Curve dense = train(text, plan, "dense", 4);
    const Curve whole = train(text, plan, "scape:1", 4);
    const Curve tenth = train(text, plan, "scape:0.1", 4);
    for (std::size_t i = 0; i < dense.points.size(); ++i)
        EXPECT_NEAR(whole.points[i].loss, dense.points[i].loss, 1e-4);
    EXPECT_GT(std::abs(tenth.points.back().loss - dense.points.back().loss), 1e-4);
    plan.density_warm_up = 20;
    EXPECT_NE(train(text, plan, "scape:0.1", 4).points.back().loss, tenth.points.back().loss);
}

TEST(Training, TakesAdamSsCorrectionsInEveryOptimizerThatHasIt) {
    const Text text = two_ways(3000);
    for (const char* optimizer : {"adams", "scape:0.1", "diloco:4", "gasloc:4"}) {
        std::set<double> losses;
        for (const auto correction : {problem::BiasCorrection::none, problem::BiasCorrection::adam,
                                      problem::BiasCorrection::momentum}) {
            Plan plan = tiny();
            plan.hyper.bias_correction = correction;
            losses.insert(train(text, plan, optimizer, 4).points.back().loss);
        }
        EXPECT_EQ(losses.size(), 3U) << optimizer;
    }
}

TEST(Training, MeasuresAtTheEndsOfRounds) {
    const Curve curve = train(two_ways(3000), tiny(), "diloco:4", 4);
    std::vector<std::size_t> steps;
    for (const Curve::Point& point : curve.points)
        steps.push_back(point.step);
    EXPECT_THAT(steps, testing::ElementsAre(0, 8, 12, 20)); // due at 6, 12, 18 and 20
    const auto exchange = curve.points[1].bytes - curve.points[0].bytes;
    EXPECT_EQ(curve.points[2].bytes - curve.points[1].bytes, exchange / 2);
}

TEST(Training, HasNoLossFromWhereItIsNoNumber) {
    Plan plan = tiny();
    const auto steps_of = [](const Curve& curve) {
        std::vector<std::size_t> steps;
        for (const Curve::Point& point : curve.points)
            steps.push_back(point.step);
        return steps;
    };
    for (const char* optimizer : {"dense", "adamw", "scape:0.1", "diloco:7"}) {
        plan = tiny();
        plan.steps = 100;
        const Curve good = train(two_ways(3000), plan, optimizer, 4);
        plan.learning_rate = 10;
        plan.warm_up = 0;
        plan.hyper.weight_decay = 1; // parameters are -9 times what they were, step after step
        const Curve bad = train(two_ways(3000), plan, optimizer, 4);
        EXPECT_EQ(steps_of(bad), steps_of(good)) << optimizer; // still a pair
        EXPECT_TRUE(std::isfinite(bad.points.front().loss)) << optimizer;
        EXPECT_TRUE(std::isnan(bad.points.back().loss)) << optimizer;
        EXPECT_GE(bad.points.back().bytes, bad.points.front().bytes) << optimizer;
    }
}

// Uncompressed stages change nothing, and their bytes are counted.
TEST(Training, OfAPipelineThatCompressesNothingIsThatOfTheModel) {
    const Text text = two_ways(3000);
    Plan plan = tiny();
    plan.shape.layers = 4;
    const Curve whole = train(text, plan, "adams", 4);
    plan.stages = 4;
    const Curve cut = train(text, plan, "adams", 4);
    ASSERT_EQ(cut.points.size(), whole.points.size());
    for (std::size_t i = 0; i < cut.points.size(); ++i) {
        EXPECT_EQ(cut.points[i].loss, whole.points[i].loss);
        // Three boundaries, three ranks, two windows of eight symbols a step, 16 floats each way.
        EXPECT_EQ(cut.points[i].bytes - whole.points[i].bytes,
                  cut.points[i].step * 3 * 3 * (2 * 8) * 16 * 2 * sizeof(float));
    }
    std::set<double> losses{cut.points.back().loss};
    const std::vector<std::string> compressed{"adams+fixed:4",    "adams+free:4", "adams+mapl:4",
                                              "adams+mapl:4:0.5", "adams+mapl:2", "scape:0.1+mapl:4"};
    for (const std::string& optimizer : compressed) {
        const Curve curve = train(text, plan, optimizer, 4);
        EXPECT_LT(curve.points.back().loss, curve.points.front().loss) << optimizer;
        losses.insert(curve.points.back().loss);
    }
    EXPECT_EQ(losses.size(), compressed.size() + 1); // every setting matters
}

TEST(TrainingPlan, SaysWhatIsWrongWithIt) {
    const Text text = two_ways(3000);
    EXPECT_EQ(refusal(tiny(), text), "");
    EXPECT_THAT(
        refusal(tiny(), text, "space:0.1"),
        HasSubstr("there is no optimizer 'space'; did you mean 'scape'? (there are adams, dense, "));
    EXPECT_THAT(refusal(tiny(), text, "adams:2"), HasSubstr("dense takes no number"));
    EXPECT_THAT(refusal(tiny(), text, "scape:2"), HasSubstr("density must be a number in (0, 1]"));
    EXPECT_THAT(refusal(tiny(), two_ways(60)),
                HasSubstr("two ways: there are 6 symbols to measure on, and a window of 8 takes 9"));
    Plan plan = tiny();
    plan.warm_up = 21;
    EXPECT_THAT(refusal(plan, text), HasSubstr("the warm-up is 21 steps of 20"));
    plan = tiny();
    plan.ranks = 0;
    EXPECT_THAT(refusal(plan, text), HasSubstr("there are 0 ranks"));
    plan = tiny();
    plan.stages = 2;
    EXPECT_THAT(refusal(plan, text), HasSubstr("there are 2 stages for 1 layers"));
    plan = tiny();
    plan.shape.width = 8192;
    plan.shape.layers = 256;
    EXPECT_THAT(refusal(plan, text), HasSubstr("GiB are free; take fewer ranks"));
    plan = tiny();
    plan.learning_rate = std::nan("");
    EXPECT_THAT(refusal(plan, text), HasSubstr("the learning rate is"));
}

TEST(TrainingPlan, LearningRateRisesAndFalls) {
    const Plan plan = tiny();
    EXPECT_DOUBLE_EQ(learning_rate_at(plan, 1), 0.0025);
    EXPECT_DOUBLE_EQ(learning_rate_at(plan, 4), 0.01);
    EXPECT_DOUBLE_EQ(learning_rate_at(plan, 12), 0.0055);
    EXPECT_DOUBLE_EQ(learning_rate_at(plan, 20), 0.001);
}

TEST(TrainingWindows, DifferByRankStepAndSeedAndLieInTheText) {
    const Text text = two_ways(3000);
    Windows windows(text, 8, 10);
    std::set<std::vector<std::uint8_t>> seen;
    for (const std::uint64_t seed : {1U, 2U})
        for (const int rank : {0, 1})
            for (const std::size_t step : {1U, 2U}) {
                const Batch& batch = windows.drawn(seed, rank, step, 4);
                ASSERT_EQ(batch.inputs.size(), 32U);
                for (std::size_t i = 0; i + 1 < 32; ++i)
                    if (i % 8 != 7) {
                        EXPECT_EQ(batch.targets[i], batch.inputs[i + 1]);
                    }
                seen.insert({batch.inputs.begin(), batch.inputs.end()});
            }
    EXPECT_EQ(seen.size(), 8U);
}

TEST(TrainingWindows, AreMeasuredOnceEachAndReachTheEnd) {
    Text text{"rising", 200, std::vector<std::uint8_t>(9), {}, {}};
    for (std::uint8_t symbol = 0; symbol < 85; ++symbol)
        text.measured.push_back(symbol);
    Windows windows(text, 8, 10);
    ASSERT_EQ(windows.measured_count(), 10U);
    std::set<std::uint8_t> seen;
    for (std::size_t window = 0; window < 10; ++window)
        for (const std::uint8_t symbol : windows.measured(window, 1).targets)
            EXPECT_TRUE(seen.insert(symbol).second) << int{symbol};
    EXPECT_EQ(seen.size(), 80U);
    EXPECT_GE(*seen.rbegin(), 83);
    EXPECT_EQ(Windows(text, 8, 99).measured_count(), 10U);
    EXPECT_EQ(Windows(text, 84, 99).measured_count(), 1U);
}

} // namespace
} // namespace truestep::training
