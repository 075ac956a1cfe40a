// Tests density schedules at their start, end and target, and what they refuse.
#include <truestep/problem/density.hpp>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

namespace truestep::problem {
namespace {

using ::testing::ThrowsMessage;

TEST(DensityTest, GeometricFallsByEqualFactors) {
    const auto density = DensitySchedule::geometric(1.0, 0.0625, 4);
    EXPECT_EQ(density.at(1), 1.0);
    EXPECT_EQ(density.at(2), 0.5);
    EXPECT_EQ(density.at(3), 0.25);
    EXPECT_EQ(density.at(4), 0.125);
    EXPECT_EQ(density.at(5), 0.0625);
}

TEST(DensityTest, GeometricFollowsTheFormulaInDouble) {
    const auto density = DensitySchedule::geometric(1.0, 0.01, 10'000);
    for (const Index t : {1, 2, 17, 5000, 10'000, 10'001, 20'000})
        EXPECT_EQ(density.at(t),
                  std::pow(0.01, static_cast<double>(std::min<Index>(t - 1, 10'000)) / 10'000.0))
            << t;
}

TEST(DensityTest, OtherSchedulesHaveOtherTexts) {
    std::vector<double> last_differs(100, 0.1);
    last_differs.back() = 0.2;
    const std::vector<DensitySchedule> all{DensitySchedule::constant(0.1),
                                           DensitySchedule::constant(std::nextafter(0.1, 1.0)),
                                           DensitySchedule::geometric(1.0, 0.1, 10),
                                           DensitySchedule::geometric(0.5, 0.1, 10),
                                           DensitySchedule::geometric(1.0, std::nextafter(0.1, 1.0), 10),
                                           DensitySchedule::geometric(1.0, 0.1, 11),
                                           DensitySchedule::linear(1.0, 0.1, 10),
                                           DensitySchedule::recorded({0.1, 0.2}),
                                           DensitySchedule::recorded({0.2, 0.1}),
                                           DensitySchedule::recorded({0.1, 0.2}, 1),
                                           DensitySchedule::recorded({0.1, 0.2, 0.2}),
                                           DensitySchedule::recorded(std::vector<double>(100, 0.1)),
                                           DensitySchedule::recorded(last_differs)};
    std::set<std::string> texts;
    for (const DensitySchedule& one : all)
        EXPECT_TRUE(texts.insert(one.text()).second) << one.text();
}

TEST(DensityTest, LinearFallsByEqualSteps) {
    const auto density = DensitySchedule::linear(1.0, 0.5, 4);
    EXPECT_EQ(density.at(1), 1.0);
    EXPECT_EQ(density.at(2), 0.875);
    EXPECT_EQ(density.at(3), 0.75);
    EXPECT_EQ(density.at(5), 0.5);
}

TEST(DensityTest, TheTargetStaysAfterTheWarmUp) {
    for (const auto& density :
         {DensitySchedule::geometric(1.0, 0.0625, 4), DensitySchedule::linear(1.0, 0.0625, 4)}) {
        EXPECT_EQ(density.at(5), 0.0625);
        EXPECT_EQ(density.at(6), 0.0625);
        EXPECT_EQ(density.at(std::numeric_limits<Index>::max()), 0.0625);
    }
}

TEST(DensityTest, MayRise) {
    EXPECT_EQ(DensitySchedule::linear(0.25, 1.0, 3).at(2), 0.5);
    EXPECT_EQ(DensitySchedule::geometric(0.25, 1.0, 2).at(2), 0.5);
}

TEST(DensityTest, WithoutAWarmUpItIsTheTargetFromTheFirstStep) {
    EXPECT_EQ(DensitySchedule::geometric(1.0, 0.1, 0).at(1), 0.1);
    EXPECT_EQ(DensitySchedule::linear(1.0, 0.1, 0).at(1), 0.1);
}

TEST(DensityTest, AWarmUpOfOneStepStartsAtTheStart) {
    EXPECT_EQ(DensitySchedule::geometric(1.0, 0.1, 1).at(1), 1.0);
    EXPECT_EQ(DensitySchedule::geometric(1.0, 0.1, 1).at(2), 0.1);
}

TEST(DensityTest, ConstantIsTheSameAtEveryStep) {
    const auto density = DensitySchedule::constant(0.3);
    for (const Index t : {1, 2, 1000})
        EXPECT_EQ(density.at(t), 0.3);
}

TEST(DensityTest, IsDescribed) {
    EXPECT_EQ(DensitySchedule::constant(0.3).description(), "0.3");
    EXPECT_EQ(DensitySchedule::linear(1.0, 0.5, 4).description(), "linear from 1 to 0.5 in 4 steps");
    EXPECT_EQ(DensitySchedule::geometric(1.0, 0.5, 4).description(), "geometric from 1 to 0.5 in 4 steps");
    EXPECT_EQ(DensitySchedule::recorded({1.0, 0.7}).description(),
              "one of 2 recorded entries, from 1 to 0.7, 1.7 in all");
}

TEST(DensityTest, RecordedEntriesBelongToTheStepsInOrder) {
    const auto density = DensitySchedule::recorded({1.0, 0.7, 0.2});
    EXPECT_EQ(density.at(1), 1.0);
    EXPECT_EQ(density.at(2), 0.7);
    EXPECT_EQ(density.at(3), 0.2);
}

TEST(DensityTest, ThereIsNonePastTheLastRecordedEntry) {
    EXPECT_THAT(
        [] {
            static_cast<void>(DensitySchedule::recorded({1.0, 0.7, 0.2}).at(4));
        },
        ThrowsMessage<Error>("density: step 4 is past the last of 3 recorded entries"));
    EXPECT_THAT([] { static_cast<void>(DensitySchedule::recorded({}).at(1)); },
                ThrowsMessage<Error>("density: step 1 is past the last of 0 recorded entries"));
}

TEST(DensityTest, StepsBeginAtOne) {
    for (const auto& density : {DensitySchedule::constant(1.0), DensitySchedule::recorded({1.0})})
        for (const Index t : {0, -1})
            EXPECT_THAT([&] { static_cast<void>(density.at(t)); },
                        ThrowsMessage<Error>("density: step " + std::to_string(t) + "; steps begin at 1"));
}

TEST(DensityTest, ADensityThatIsNoShareIsRefused) {
    EXPECT_THAT([] { static_cast<void>(DensitySchedule::geometric(0.0, 0.1, 1)); },
                ThrowsMessage<Error>("density: the start is 0; a density is more than 0 and at most 1"));
    EXPECT_THAT(
        [] { static_cast<void>(DensitySchedule::linear(1.0, -0.1, 1)); },
        ThrowsMessage<Error>("density: the target is -0.1; a density is more than 0 and at most 1"));
    EXPECT_THAT([] { static_cast<void>(DensitySchedule::linear(1.5, 0.1, 1)); },
                ThrowsMessage<Error>("density: the start is 1.5; a density is more than 0 and at most 1"));
    EXPECT_THAT(
        [] {
            static_cast<void>(DensitySchedule::recorded({1.0, 1.25}));
        },
        ThrowsMessage<Error>("density: entry 1 is 1.25; a density is more than 0 and at most 1"));
}

TEST(DensityTest, ANanIsRefused) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THAT([] { static_cast<void>(DensitySchedule::constant(nan)); },
                ThrowsMessage<Error>("density: the start is nan; a density is more than 0 and at most 1"));
    EXPECT_THAT([] { static_cast<void>(DensitySchedule::geometric(1.0, nan, 1)); },
                ThrowsMessage<Error>("density: the target is nan; a density is more than 0 and at most 1"));
    EXPECT_THAT([] { static_cast<void>(DensitySchedule::recorded({nan})); },
                ThrowsMessage<Error>("density: entry 0 is nan; a density is more than 0 and at most 1"));
}

TEST(DensityTest, ANegativeWarmUpIsRefused) {
    EXPECT_THAT([] { static_cast<void>(DensitySchedule::geometric(1.0, 0.1, -1)); },
                ThrowsMessage<Error>("density: the warm-up is -1 steps; it must be at least 0"));
}

} // namespace
} // namespace truestep::problem
