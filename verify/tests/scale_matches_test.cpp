// Tests which wrong values count as a whole factor away, given rounding and limits.
#include <truestep/verify/scale_matches.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace truestep::verify {
namespace {

std::vector<bool> all_of(std::size_t size) {
    return std::vector<bool>(size, true);
}

ScaleMatches in_bits(int factor, const std::vector<float>& expected, const std::vector<float>& actual) {
    return scaled_by(factor, expected, actual, all_of(actual.size()));
}

TEST(ScaleMatches, CountsWhatIsTheFactorAwayInEitherDirection) {
    const std::vector<float> values{1.5F, -0.1F, 3e-5F, 7.0F};
    std::vector<float> more;
    std::vector<float> less;
    for (const float value : values) {
        more.push_back(value * 3.0F);
        less.push_back(value / 3.0F);
    }
    EXPECT_EQ(in_bits(3, values, more).times, 4);
    EXPECT_EQ(in_bits(3, values, more).divided, 0);
    EXPECT_EQ(in_bits(3, values, less).times, 0);
    EXPECT_EQ(in_bits(3, values, less).divided, 4);
    EXPECT_EQ(in_bits(2, values, more).times, 0);
    more[1] = -more[1];
    more[2] = std::nextafter(more[2], 1.0F);
    EXPECT_LE(in_bits(3, values, more).times, 3) << "a sign is no factor";
    EXPECT_GE(in_bits(3, values, more).times, 2);
}

TEST(ScaleMatches, DividingBeforeOneMultipliesIsNoDifference) {
    std::vector<float> sums;
    std::vector<float> means;
    for (int i = 1; i < 1000; ++i) {
        sums.push_back(0.1F * static_cast<float>(i));
        means.push_back(sums.back() / 7.0F);
    }
    EXPECT_EQ(in_bits(7, means, sums).times, 999);
    EXPECT_EQ(in_bits(7, sums, means).divided, 999);
}

TEST(ScaleMatches, WhatSaysNothingIsNotCounted) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    constexpr float smallest = std::numeric_limits<float>::denorm_min();
    const std::vector<float> values{0.0F, -0.0F, infinite, std::numeric_limits<float>::quiet_NaN(),
                                    smallest};
    EXPECT_EQ(in_bits(2, values, values).times, 0);
    EXPECT_EQ(in_bits(2, {0.0F, smallest}, {-0.0F, 2.0F * smallest}).times, 0);
    EXPECT_EQ(in_bits(1, {1.0F, 2.0F}, {1.0F, 2.0F}).times, 0) << "of one rank";
    EXPECT_EQ(scaled_by(2, std::vector{1.0F, 2.0F}, std::vector{2.0F, 4.0F}, {false, true}).times, 1)
        << "of those that are wrong alone";
}

TEST(ScaleMatches, WithinLimitsThatAreSmallBesideTheFactor) {
    const std::vector<double> expected{1.0, 1.0, 1.0, 1.0};
    const std::vector<double> limits{1e-6, 1e-6, 0.5, std::numeric_limits<double>::infinity()};
    const std::vector<float> thrice{3.0F + 2e-6F, 3.0F + 5e-6F, 3.0F, 3.0F};
    const ScaleMatches found = scaled_by(3, expected, limits, thrice, all_of(4));
    EXPECT_EQ(found.times, 1) << "one is too far off, of one too little is known, of one nothing";
    EXPECT_EQ(scaled_by(3, expected, limits, std::vector{1.0F / 3.0F}, all_of(1)).divided, 1);
}

TEST(ScaleMatches, OfStepsWhatOnlyRoundingHidesIsNotCounted) {
    const std::vector<double> before{1.0, 1.0, 1.0};
    const std::vector<double> expected{0.99, 0.99, 1.0 - 0x1p-23};
    const std::vector<double> limits(3, 0.0);
    const std::vector<float> thrice{0.97F, 0.98F, static_cast<float>(1.0 - 3.0 * 0x1p-23)};
    EXPECT_EQ(steps_scaled_by(3, before, expected, limits, thrice, all_of(3)).times, 1);
    EXPECT_EQ(steps_scaled_by(2, before, expected, limits, thrice, all_of(3)).times, 1) << "0.98";
    EXPECT_EQ(steps_scaled_by(2, before, std::vector{0.98, 0.98, 0.98}, limits, std::vector{0.99F, 1.0F},
                              all_of(3))
                  .divided,
              1);
    EXPECT_EQ(steps_scaled_by(1, before, expected, limits, thrice, all_of(3)).times, 0);
}

} // namespace
} // namespace truestep::verify
