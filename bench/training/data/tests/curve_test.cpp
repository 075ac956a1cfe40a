// Tests means and medians of loss curves, and the steps and bytes to a given loss.
#include <truestep/training/curve.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

namespace truestep::training {
namespace {

Curve curve_through(std::uint64_t seed, const std::vector<double>& losses) {
    Curve curve{.optimizer = "adamw", .seed = seed, .points = {}};
    for (std::size_t i = 0; i < losses.size(); ++i)
        curve.points.push_back({.step = 10 * i, .loss = losses[i], .bytes = 1000 * i});
    return curve;
}

TEST(Curves, MeanAndMedianOfEachStep) {
    const std::vector<Curve> all{curve_through(1, {4, 2}), curve_through(2, {5, 3}),
                                 curve_through(3, {9, 10})};
    EXPECT_DOUBLE_EQ(mean_of(all)[1].loss, 5.0);
    EXPECT_DOUBLE_EQ(median_of(all)[1].loss, 3.0);
    EXPECT_EQ(median_of(all)[1].bytes, 1000U);
    const std::vector<Curve> odd{curve_through(1, {4, 2}), curve_through(2, {5, std::nan("")}),
                                 curve_through(3, {9, 10})};
    EXPECT_DOUBLE_EQ(median_of(odd)[1].loss, 10.0); // NaN counts as the greatest
}

TEST(Curves, StepsAndBytesToALossAreWhereItIsFirstReached) {
    const Curve curve = curve_through(1, {4, 3, 3.5, 1});
    EXPECT_DOUBLE_EQ(*steps_to(curve.points, 3.25), 7.5);
    EXPECT_DOUBLE_EQ(*bytes_to(curve.points, 3.25), 750.0);
    EXPECT_DOUBLE_EQ(*steps_to(curve.points, 2.25), 25.0);
    EXPECT_DOUBLE_EQ(*steps_to(curve.points, 5.0), 0.0);
    EXPECT_FALSE(steps_to(curve.points, 0.9).has_value());
}

TEST(Curves, TheRatioOfStepsIsThatToTheLossThatBothReach) {
    const Curve base = curve_through(1, {4, 3, 2, 1});
    const Curve slower = curve_through(1, {4, 3.5, 3, 2.5});
    EXPECT_DOUBLE_EQ(*steps_ratio(base.points, slower.points), 2.0);
    EXPECT_DOUBLE_EQ(*steps_ratio(slower.points, base.points), 0.5);
    EXPECT_DOUBLE_EQ(*steps_ratio(base.points, base.points), 1.0);
    const Curve nothing = curve_through(1, {4, 4, 4, 4});
    EXPECT_FALSE(steps_ratio(base.points, nothing.points).has_value());
    const Curve broken = curve_through(1, {4, std::nan(""), std::nan(""), std::nan("")});
    EXPECT_FALSE(steps_ratio(base.points, broken.points).has_value());
}

TEST(Curves, OtherStepsOrNoneAreRefused) {
    EXPECT_THROW((void)mean_of(std::vector<Curve>{curve_through(1, {4, 2}), curve_through(2, {4})}), Error);
    EXPECT_THROW((void)mean_of(std::vector<Curve>{curve_through(1, {})}), Error);
    EXPECT_THROW((void)mean_of(std::vector<Curve>{}), Error);
}

TEST(Curves, AreGroupedInTheirOrder) {
    std::vector<Curve> all{curve_through(1, {4}), curve_through(1, {5}), curve_through(2, {6})};
    all[1].optimizer = "scape";
    const auto groups = by_optimizer(all);
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_EQ(groups[0].size(), 2U);
    EXPECT_EQ(groups[1].front().optimizer, "scape");
}

} // namespace
} // namespace truestep::training
