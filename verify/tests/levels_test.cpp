// Tests distances between values, levels and verdicts.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "comparator_support.hpp"
#include "support.hpp"

namespace truestep::verify {
namespace {

using scape::support::contains;
using scape::support::error_of;

// Distances.

TEST(UlpDistance, IsZeroForTheSameBitsOnly) {
    for (const float value : {0.0F, -0.0F, 1.0F, -greatest, least_subnormal, infinity, -infinity, nan})
        EXPECT_EQ(ulp_distance(value, value), 0.0) << value;
}

TEST(UlpDistance, OfNeighboursIsOne) {
    for (const float value :
         {0.0F, least_subnormal, from_bits(0x007f'ffffU), std::numeric_limits<float>::min(), 0.1F, 1.0F,
          from_bits(0x3fff'ffffU), 2.0F, 1e30F}) {
        EXPECT_EQ(ulp_distance(value, next_up(value)), 1.0) << value;
        EXPECT_EQ(ulp_distance(-value, -next_up(value)), 1.0) << value;
    }
    EXPECT_EQ(ulp_distance(greatest, std::nextafter(greatest, 0.0F)), 1.0);
}

TEST(UlpDistance, OfTheTwoZerosIsOne) {
    EXPECT_EQ(ulp_distance(-0.0F, 0.0F), 1.0);
    EXPECT_EQ(ulp_distance(0.0F, -0.0F), 1.0);
}

TEST(UlpDistance, CountsAcrossZero) {
    EXPECT_EQ(ulp_distance(-least_subnormal, -0.0F), 1.0);
    EXPECT_EQ(ulp_distance(-least_subnormal, 0.0F), 2.0);
    EXPECT_EQ(ulp_distance(-least_subnormal, least_subnormal), 3.0);
    EXPECT_EQ(ulp_distance(-greatest, greatest), 2.0 * 0x7f7f'ffff + 1.0);
}

TEST(UlpDistance, CountsAcrossBinades) {
    EXPECT_EQ(ulp_distance(1.0F, 2.0F), 0x1p23);
    EXPECT_EQ(ulp_distance(1.0F, 4.0F), 0x1p24);
    EXPECT_EQ(ulp_distance(from_bits(0x3fff'ffffU), from_bits(0x4000'0001U)), 2.0);
}

TEST(UlpDistance, OfANanToAnythingButItsOwnBitsIsInfinite) {
    EXPECT_EQ(ulp_distance(from_bits(0x7fc0'0000U), from_bits(0x7fc0'0001U)), infinite);
    EXPECT_EQ(ulp_distance(from_bits(0x7fc0'0000U), from_bits(0xffc0'0000U)), infinite);
    EXPECT_EQ(ulp_distance(from_bits(0x7fc0'0001U), from_bits(0x7fc0'0001U)), 0.0);
    for (const float other : {0.0F, 1.0F, greatest, infinity, -infinity})
        EXPECT_EQ(ulp_distance(nan, other), infinite) << other;
}

TEST(UlpDistance, OfAnInfinityToTheGreatestNumberIsInfinite) {
    EXPECT_EQ(ulp_distance(infinity, greatest), infinite);
    EXPECT_EQ(ulp_distance(-infinity, -greatest), infinite);
    EXPECT_EQ(ulp_distance(infinity, -infinity), infinite);
}

TEST(UlpDistance, IsSymmetricAndTheNumberOfStepsBetween) {
    std::mt19937 random(1);
    for (int round = 0; round < 20000; ++round) {
        const float a = from_bits(static_cast<std::uint32_t>(random()));
        const float b = from_bits(static_cast<std::uint32_t>(random()));
        ASSERT_EQ(ulp_distance(a, b), ulp_distance(b, a)) << with_bits(a) << " " << with_bits(b);
        if (!std::isfinite(a))
            continue;
        float walked = a;
        const int steps = static_cast<int>(random() % 8);
        for (int step = 0; step < steps; ++step)
            walked = next_up(walked);
        // nextafter steps over one of the two zeros; infinity ends the walk.
        if (std::isfinite(walked) && std::signbit(a) == std::signbit(walked)) {
            ASSERT_EQ(ulp_distance(a, walked), steps) << with_bits(a);
        }
    }
}

TEST(Difference, IsTakenInDoubleAndInfiniteWhereThereIsNone) {
    EXPECT_EQ(difference(1.0, 1.5), 0.5);
    EXPECT_EQ(difference(1.5, 1.0), 0.5);
    EXPECT_EQ(difference(-0.0, 0.0), 0.0);
    EXPECT_EQ(difference(3e38, -3e38), 6e38);
    EXPECT_EQ(difference(not_a_number, not_a_number), 0.0);
    EXPECT_EQ(difference(not_a_number, 1.0), infinite);
    EXPECT_EQ(difference(1.0, not_a_number), infinite);
    EXPECT_EQ(difference(infinite, infinite), 0.0);
    EXPECT_EQ(difference(infinite, -infinite), infinite);
    EXPECT_EQ(difference(infinite, not_a_number), infinite);
}

// Verdicts and levels.

TEST(Verdict, AMismatchFailsWhateverElse) {
    EXPECT_EQ(verdict(100, 1, 100, 100), Status::failed);
    EXPECT_EQ(verdict(100, 1, 0, 100), Status::failed);
    EXPECT_EQ(verdict(0, 1, 0, 0), Status::failed);
}

TEST(Verdict, TooFewNonzeroValuesAreMistrusted) {
    EXPECT_EQ(verdict(1000, 0, 0, 1000), Status::mistrusted);
    EXPECT_EQ(verdict(1000, 0, 49, 1000), Status::mistrusted);
    EXPECT_EQ(verdict(1000, 0, 50, 1000), Status::passed) << "exactly the least share";
    EXPECT_EQ(verdict(20, 0, 1, 20), Status::passed);
    EXPECT_EQ(verdict(21, 0, 1, 21), Status::mistrusted);
}

TEST(Verdict, ValuesThatAreZeroByRuleDoNotCountAgainstAPass) {
    EXPECT_EQ(verdict(1000, 0, 1, 20), Status::passed);
    EXPECT_EQ(verdict(1000, 0, 0, 0), Status::passed) << "all of them zero by rule";
}

TEST(Levels, HaveTheNamesOfSection6) {
    EXPECT_EQ(name(Level::exact()), "EXACT");
    EXPECT_EQ(name(Level::rerun()), "RERUN");
    EXPECT_EQ(name(Level::ulp(4.0)), "ULP(4)");
    EXPECT_EQ(name(Level::ulp(0.5)), "ULP(0.5)");
    EXPECT_EQ(name(Level::rel()), "REL");
    EXPECT_EQ(name(Level::bf16()), "BF16");
    EXPECT_EQ(name(Level{LevelKind::stat, 0.0}), "STAT");
}

TEST(Levels, AreExplainedInOneLine) {
    for (const Level& level : {Level::exact(), Level::rerun(), Level::ulp(4.0), Level::rel(), Level::bf16(),
                               Level{LevelKind::stat, 0.0}}) {
        EXPECT_GT(explain(level).size(), 10U);
        EXPECT_FALSE(contains(explain(level), "\n"));
    }
    EXPECT_TRUE(contains(explain(Level::exact()), "sign of zero included"));
    EXPECT_TRUE(contains(explain(Level::rel()), "rounding error")) << "a bound is written with its cause";
    EXPECT_TRUE(contains(explain(Level::bf16()), "are not detected")) << "and what it cannot do";
}

TEST(Levels, OneThatATraceCannotHaveIsRefusedWithTheReason) {
    EXPECT_EQ(parse_trace_level("exact").kind, LevelKind::exact);
    EXPECT_EQ(parse_trace_level("rel").kind, LevelKind::rel);
    EXPECT_EQ(parse_trace_level("bf16").kind, LevelKind::bf16);
    for (const auto& level_and_reason : std::array<std::pair<std::string, std::string>, 3>{
             {{"ulp", "number of ULPs"}, {"rerun", "truestep diff"}, {"stat", "many seeds"}}}) {
        const std::string text =
            error_of([&] { static_cast<void>(parse_trace_level(level_and_reason.first)); });
        EXPECT_TRUE(contains(text, level_and_reason.second)) << text;
        EXPECT_TRUE(contains(text, "use exact, rel or bf16")) << text;
    }
    for (const char* unknown : {"", "EXACT", "Exact", "exactly", "ulp(4)", "0"})
        EXPECT_TRUE(contains(error_of([&] { static_cast<void>(parse_trace_level(unknown)); }),
                             "must be exact, rel or bf16"));
}

TEST(Levels, AnImplementationClaimsExactOrRel) {
    EXPECT_EQ(parse_claimed_level("exact").kind, LevelKind::exact);
    EXPECT_EQ(parse_claimed_level("rel").kind, LevelKind::rel);
    for (const char* other : {"", "REL", "ulp", "stat"})
        EXPECT_TRUE(contains(error_of([&] { static_cast<void>(parse_claimed_level(other)); }),
                             "of an implementation it must be exact or rel"));
    EXPECT_TRUE(
        contains(error_of([] { static_cast<void>(parse_claimed_level("bf16")); }), "truestep verify"));
}

TEST(Statuses, HaveNamesThatNeverBlur) {
    EXPECT_EQ(name(Status::passed), "PASSED");
    EXPECT_EQ(name(Status::failed), "FAILED");
    EXPECT_EQ(name(Status::skipped), "SKIPPED");
    EXPECT_EQ(name(Status::mistrusted), "MISTRUSTED");
    EXPECT_EQ(name(Status::untested), "UNTESTED");
}

} // namespace
} // namespace truestep::verify
