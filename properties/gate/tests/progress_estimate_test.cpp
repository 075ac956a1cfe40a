// Tests the estimate of the remaining time: work not begun, several processes, and the end.
#include "progress_estimate.hpp"

#include <gtest/gtest.h>

namespace truestep::gate {
namespace {

ProgressEstimate two_quick_and_two_slow() {
    ProgressEstimate pace;
    for (const char* of : {"quick", "quick", "slow", "slow"})
        pace.expect(of);
    return pace;
}

TEST(ProgressEstimate, WhatHasNotBegunIsAsSlowAsTheSlowest) {
    ProgressEstimate pace = two_quick_and_two_slow();
    pace.took("quick", 1.0);
    EXPECT_DOUBLE_EQ(pace.left(1.0), 3.0);
    pace.took("quick", 1.0);
    pace.took("slow", 10.0);
    EXPECT_DOUBLE_EQ(pace.left(12.0), 10.0) << "not the mean of all, which is 4";
    EXPECT_EQ(pace.done(), 3);
    EXPECT_EQ(pace.all(), 4);
}

TEST(ProgressEstimate, SeveralAtATimeTakeLess) {
    ProgressEstimate pace = two_quick_and_two_slow();
    pace.took("quick", 1.0);
    pace.took("slow", 9.0);
    EXPECT_DOUBLE_EQ(pace.left(5.0), (1.0 + 9.0) / 2.0);
}

TEST(ProgressEstimate, NothingIsLeftAtTheEnd) {
    ProgressEstimate pace;
    EXPECT_EQ(pace.left(0.0), 0.0);
    pace.expect("one");
    EXPECT_EQ(pace.left(0.0), 0.0) << "nothing is known yet";
    pace.took("one", 2.0);
    EXPECT_EQ(pace.left(2.0), 0.0);
}

} // namespace
} // namespace truestep::gate
