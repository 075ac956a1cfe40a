// Compares probabilities with printed tables.
#include "tails.hpp"

#include <gtest/gtest.h>

namespace truestep::training {
namespace {

TEST(Tails, StudentAsInTables) {
    EXPECT_NEAR(student_tail(2.262, 9), 0.025, 5e-5);
    EXPECT_NEAR(student_tail(-2.262, 9), 0.975, 5e-5);
    EXPECT_NEAR(student_tail(1.0, 1), 0.25, 1e-12); // a right angle of Cauchy's
    EXPECT_NEAR(student_tail(0.0, 5), 0.5, 1e-12);
}

TEST(Tails, FisherAsInTables) {
    EXPECT_NEAR(fisher_tail(3.326, 5, 10), 0.05, 5e-5);
    EXPECT_NEAR(fisher_tail(12.55, 3, 10), 0.001, 5e-6);
    // With one degree above, it is t squared, both sides.
    EXPECT_NEAR(fisher_tail(2.262 * 2.262, 1, 9), 2.0 * student_tail(2.262, 9), 1e-12);
}

TEST(Tails, TheLimitFallsToThatOfASigmaThatIsKnown) {
    EXPECT_NEAR(student_limit(1), 318.31, 0.5);
    EXPECT_NEAR(student_limit(9), 4.297, 0.003);
    EXPECT_NEAR(student_limit(29), 3.396, 0.002);
    EXPECT_NEAR(student_limit(1e6), 3.09, 1e-4);
}

} // namespace
} // namespace truestep::training
