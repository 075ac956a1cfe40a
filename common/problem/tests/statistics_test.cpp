// Tests medians, quantiles and spread, also with NaN among the values.
#include <truestep/problem/statistics.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace truestep::problem {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

TEST(Statistics, MedianIsTheMiddleOrTheMeanOfTwo) {
    EXPECT_EQ(median({3.0, 1.0, 2.0}), 2.0);
    EXPECT_EQ(median({4.0, 1.0, 2.0, 3.0}), 2.5);
    EXPECT_EQ(median({7.0}), 7.0);
    EXPECT_TRUE(std::isnan(median({})));
}

TEST(Statistics, QuantilesLieBetweenValuesInProportion) {
    EXPECT_EQ(quantile({30.0, 10.0, 20.0}, 0.25), 15.0);
    EXPECT_EQ(quantile({30.0, 10.0, 20.0}, 0.0), 10.0);
    EXPECT_EQ(quantile({30.0, 10.0, 20.0}, 1.0), 30.0);
}

TEST(Statistics, SpreadIsHalfOfTheDistanceBetweenTheQuartiles) {
    EXPECT_EQ(spread({1.0, 2.0, 3.0, 4.0, 5.0}), 1.0 / 3.0) << "quartiles 2 and 4";
    EXPECT_EQ(spread({2.0, 2.0, 2.0}), 0.0);
}

TEST(Statistics, WhatIsNoNumberIsTheGreatest) {
    EXPECT_EQ(median({std::nan(""), 1.0, 2.0}), 2.0);
    EXPECT_EQ(median({1.0, infinite, 2.0}), 2.0);
    EXPECT_EQ(median({1.0, infinite, infinite, infinite}), infinite);
    EXPECT_TRUE(std::isnan(median({1.0, std::nan("")})));
}

} // namespace
} // namespace truestep::problem
