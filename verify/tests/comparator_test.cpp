// Tests comparisons at each level: NaN, zeros, limits, masks, and defects of other comparators.
#include <truestep/verify/comparator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/reference/scape/folds.hpp>

#include "comparator_support.hpp"
#include "support.hpp"

namespace truestep::verify {
namespace {

using scape::support::contains;
using scape::support::error_of;
using scape::support::TemporaryFolder;

const problem::Layout layout({{"wq", 3, false}, {"norm", 2, true}, {"mlp", 15, false}});

// The defects of well-known projects' comparators, each as a separate case.

TEST(ComparatorDefects, NanNeverPassesHoweverLaxTheLevel) {
    for (const Level& level : levels_of_bits()) {
        EXPECT_FALSE(compare(std::vector{1.0F}, std::vector{nan}, level).ok()) << name(level);
        EXPECT_FALSE(compare(std::vector{nan}, std::vector{1.0F}, level).ok()) << name(level);
        EXPECT_FALSE(compare(std::vector{nan}, std::vector{-nan}, level).ok()) << name(level);
    }
    EXPECT_FALSE(within({1.0}, {1e300}, {nan}).ok());
    EXPECT_FALSE(within({not_a_number}, {1e300}, {1.0F}).ok());
    EXPECT_FALSE(within({not_a_number}, {1e300}, {nan}).ok());
    EXPECT_FALSE(within({1.0}, {infinite}, {nan}).ok());
}

TEST(ComparatorDefects, ADifferenceCountsInBothDirections) {
    for (const auto& [expected, actual] :
         {std::pair{1.0F, 2.0F}, {2.0F, 1.0F}, {-1.0F, 1.0F}, {1.0F, -1.0F}}) {
        EXPECT_FALSE(exact({expected}, {actual}).ok());
        EXPECT_FALSE(compare(std::vector{expected}, std::vector{actual}, Level::ulp(16.0)).ok());
        EXPECT_FALSE(within({static_cast<double>(expected)}, {0.5}, {actual}).ok());
        EXPECT_GT(ulp_distance(expected, actual), 0.0);
        EXPECT_GT(difference(static_cast<double>(expected), static_cast<double>(actual)), 0.0);
    }
}

TEST(ComparatorDefects, NegativeZeroIsNotPositiveZeroBitwise) {
    EXPECT_FALSE(exact({0.0F}, {-0.0F}).ok());
    EXPECT_FALSE(exact({-0.0F}, {0.0F}).ok());
    EXPECT_FALSE(compare(std::vector{0.0F}, std::vector{-0.0F}, Level::rerun()).ok());
    EXPECT_FALSE(compare(std::vector{0.0F}, std::vector{-0.0F}, Level::ulp(0.0)).ok());
    EXPECT_TRUE(exact({-0.0F, 0.0F}, {-0.0F, 0.0F}).ok());
}

TEST(ComparatorDefects, NanAndInfinityAreNotMappedToOneValue) {
    const std::vector<float> specials{nan, infinity, -infinity, greatest, -greatest};
    for (const Level& level : levels_of_bits())
        for (std::size_t i = 0; i < specials.size(); ++i)
            for (std::size_t j = 0; j < specials.size(); ++j) {
                // Between the two greatest finite numbers there is a distance; elsewhere there is
                // none.
                if (i >= 3 && j >= 3)
                    continue;
                EXPECT_EQ(compare(std::vector{specials[i]}, std::vector{specials[j]}, level).ok(), i == j)
                    << name(level) << " " << specials[i] << " " << specials[j];
            }
}

TEST(ComparatorDefects, TheLevelThatTheHelpNamesIsTheOneThatIsUsed) {
    const TemporaryFolder folder;
    const auto trace = (folder / "trace.safetensors").string();
    record(trace, scape::support::small_run());
    const scape::support::ToolResult help = scape::support::run_tool({"verify", "--help"});
    const std::size_t option = help.output.find("--level");
    ASSERT_NE(option, std::string::npos);
    const std::size_t named = help.output.find("Default: ", option);
    ASSERT_NE(named, std::string::npos);
    EXPECT_EQ(help.output.substr(named, 14), "Default: exact");

    EXPECT_TRUE(contains(scape::support::run_tool({"verify", trace}).output, "level    EXACT"));
    const auto value = scape::support::element<float>(trace, "step/0005/parameters", 80);
    scape::support::set_element(trace, "step/0005/parameters", 80, next_up(value));
    EXPECT_EQ(scape::support::run_tool({"verify", trace}).status, 1)
        << "one ULP is not tolerated by default";
    EXPECT_EQ(scape::support::run_tool({"verify", "--level", "rel", trace}).status, 0);
}

TEST(ComparatorDefects, NothingComparedIsNotAPass) {
    EXPECT_EQ(verdict(0, 0, 0, 0), Status::untested);
    EXPECT_EQ(verdict(0, 0, 0, 100), Status::untested);
    for (const Status status : {Status::failed, Status::skipped, Status::mistrusted, Status::untested}) {
        EXPECT_NE(status, Status::passed);
        EXPECT_NE(name(status), name(Status::passed));
    }
    const Comparison nothing = exact({}, {});
    EXPECT_NE(verdict(nothing.compared, nothing.mismatched, nothing.nonzero, 0), Status::passed);
}

TEST(ComparatorDefects, TwoRanksHideAnOrderThatThreeRanksShow) {
    const auto mean = [](const std::vector<float>& values, bool reversed) {
        reference::PerRank<float> ranks;
        for (const float value : values)
            ranks.push_back(reference::Vector<float>::Constant(1, value));
        if (reversed)
            std::reverse(ranks.begin(), ranks.end());
        return std::vector{reference::scape::mean_in_rank_order(ranks)[0]};
    };
    const std::vector<float> two{1.0F, 0x1p-24F};
    const std::vector<float> three{1.0F, 0x1p-24F, 0x1p-24F};
    EXPECT_TRUE(exact(mean(two, false), mean(two, true)).ok()) << "a + b commutes";
    EXPECT_FALSE(exact(mean(three, false), mean(three, true)).ok());
    EXPECT_EQ(exact(mean(three, false), mean(three, true)).greatest_ulps, 1.0);
}

// The contents of a comparison.

TEST(Compare, VectorsOfOtherSizesNeverPass) {
    for (const Level& level : levels_of_bits()) {
        const Comparison shorter = compare(std::vector{1.0F, 2.0F, 3.0F}, std::vector{1.0F, 2.0F}, level);
        EXPECT_FALSE(shorter.ok());
        EXPECT_EQ(shorter.compared, 2);
        EXPECT_EQ(summary(shorter), "sizes differ: expected 3, got 2");
        EXPECT_FALSE(compare(std::vector{1.0F}, std::vector{1.0F, 2.0F}, level).ok());
        EXPECT_FALSE(compare(std::vector<float>{}, std::vector{1.0F}, level).ok());
        EXPECT_FALSE(compare(std::vector{1.0F}, std::vector<float>{}, level).ok());
    }
    EXPECT_FALSE(within({1.0, 2.0}, {1.0, 1.0}, {1.0F}).ok());
    EXPECT_FALSE(within({1.0}, {1.0}, {1.0F, 2.0F}).ok());
}

TEST(Compare, CountsComparedMismatchedAndNonzero) {
    const Comparison comparison = exact({0.0F, 1.0F, -0.0F, 2.0F, nan}, {0.0F, 1.5F, 0.0F, 2.0F, nan});
    EXPECT_EQ(comparison.compared, 5);
    EXPECT_EQ(comparison.mismatched, 2);
    EXPECT_EQ(comparison.nonzero, 3) << "of the expected values; a NaN is none of the zeros";
    EXPECT_FALSE(comparison.ok());
}

TEST(Compare, SummaryGivesThePercentage) {
    const auto summary_of = [](std::size_t size, std::size_t wrong) {
        std::vector<float> actual(size, 0.0F);
        std::fill_n(actual.begin(), wrong, 1.0F);
        return summary(exact(std::vector<float>(size, 0.0F), actual));
    };
    EXPECT_EQ(summary_of(120, 3), "3 of 120 values differ (2.5 %)");
    EXPECT_EQ(summary_of(3, 1), "1 of 3 values differ (33.3 %)");
    EXPECT_EQ(summary_of(7, 7), "7 of 7 values differ (100 %)");
    EXPECT_EQ(summary_of(7, 0), "0 of 7 values differ (0 %)");
    EXPECT_EQ(summary_of(1'000'000, 1), "1 of 1000000 values differ (0.0001 %)");
    EXPECT_EQ(summary_of(0, 0), "0 of 0 values differ (0 %)");
}

std::vector<Index> indices(const std::vector<Pair>& pairs) {
    std::vector<Index> result;
    for (const Pair& pair : pairs)
        result.push_back(pair.index);
    return result;
}

Comparison with_wrong(std::size_t size, const std::vector<std::size_t>& wrong) {
    std::vector<float> actual(size, 1.0F);
    for (const std::size_t index : wrong)
        actual[index] = 2.0F;
    return exact(std::vector<float>(size, 1.0F), actual);
}

TEST(Compare, ShowsThreeGoodValuesBeforeTheFirstBadOne) {
    EXPECT_EQ(indices(with_wrong(20, {10, 14}).before), (std::vector<Index>{7, 8, 9}));
    EXPECT_EQ(indices(with_wrong(20, {1}).before), (std::vector<Index>{0}));
    EXPECT_EQ(indices(with_wrong(20, {0, 5}).before), std::vector<Index>{});
}

TEST(Compare, ShowsTheFirstFiveAndTheLastFiveBadValues) {
    const Comparison many = with_wrong(20, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 19});
    EXPECT_EQ(indices(many.first), (std::vector<Index>{0, 1, 2, 3, 4}));
    EXPECT_EQ(indices(many.last), (std::vector<Index>{8, 9, 10, 15, 19}));
    const Comparison six = with_wrong(20, {0, 1, 2, 3, 4, 5});
    EXPECT_EQ(indices(six.first), (std::vector<Index>{0, 1, 2, 3, 4}));
    EXPECT_EQ(indices(six.last), (std::vector<Index>{5}));
    EXPECT_TRUE(with_wrong(20, {1, 2, 3, 4, 5}).last.empty());
}

TEST(Compare, DetailsSayHowManyMoreThereAre) {
    EXPECT_TRUE(contains(details(with_wrong(20, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 19}), layout, "> "),
                         "> ... 3 more ...\n"));
    EXPECT_FALSE(contains(details(with_wrong(20, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), layout, ""), "more"));
}

TEST(Compare, DetailsNameTensorIndexCoordinateValuesAndBits) {
    const Comparison comparison = exact({1.0F, 2.0F, 3.0F, 0.0F}, {1.0F, 2.0F, 3.0F, -0.0F});
    EXPECT_EQ(details(comparison, layout, "  "),
              "  tensor wq, index 0 (coordinate 0): expected 1 (0x3f800000), got 1 (0x3f800000)\n"
              "  tensor wq, index 1 (coordinate 1): expected 2 (0x40000000), got 2 (0x40000000)\n"
              "  tensor wq, index 2 (coordinate 2): expected 3 (0x40400000), got 3 (0x40400000)\n"
              "  tensor norm, index 0 (coordinate 3): expected 0 (0x00000000), got -0 (0x80000000), "
              "1 ULP apart  <--\n"
              "  greatest difference 0: tensor norm, index 0 (coordinate 3): expected 0 (0x00000000), "
              "got -0 (0x80000000), 1 ULP apart\n");
    EXPECT_TRUE(
        contains(details(exact({1.0F}, {nan}), layout, ""), "got nan (0x7fc00000), not comparable"));
}

TEST(Compare, KeepsTheGreatestDifferenceWithItsIndex) {
    const Comparison comparison = exact({0.0F, 1.0F, 1.0F, 1.0F, 1.0F}, {-0.0F, 1.5F, 3.0F, 0.5F, -1.0F});
    ASSERT_TRUE(comparison.greatest.has_value());
    EXPECT_EQ(comparison.greatest->index, 2) << "the first of two equally great ones";
    EXPECT_EQ(comparison.greatest->difference, 2.0);
    EXPECT_EQ(comparison.greatest->expected, 1.0F);
    EXPECT_EQ(comparison.greatest->actual, 3.0F);
    const Comparison incomparable = exact({1.0F, 1.0F, 1.0F}, {3.0F, nan, -9.0F});
    ASSERT_TRUE(incomparable.greatest.has_value());
    EXPECT_EQ(incomparable.greatest->index, 1) << "nothing is farther away than a NaN";
    EXPECT_EQ(incomparable.greatest_ulps, infinite);
    EXPECT_FALSE(exact({1.0F, nan}, {1.0F, nan}).greatest.has_value());
}

TEST(Compare, KeepsTheGreatestDifferenceAmongThoseThatPassToo) {
    const Comparison comparison = within({1.0, 2.0}, {0.5, 0.5}, {1.25F, 2.0F});
    EXPECT_TRUE(comparison.ok());
    ASSERT_TRUE(comparison.greatest.has_value());
    EXPECT_EQ(comparison.greatest->index, 0);
    EXPECT_EQ(comparison.greatest->difference, 0.25);
}

TEST(Compare, UlpToleratesUpToItsLimitAndNoMore) {
    const float four_up = next_up(next_up(next_up(next_up(1.0F))));
    EXPECT_TRUE(compare(std::vector{1.0F}, std::vector{four_up}, Level::ulp(4.0)).ok());
    EXPECT_FALSE(compare(std::vector{1.0F}, std::vector{four_up}, Level::ulp(3.0)).ok());
    EXPECT_TRUE(compare(std::vector{0.0F}, std::vector{-0.0F}, Level::ulp(1.0)).ok());
    EXPECT_EQ(compare(std::vector{1.0F}, std::vector{four_up}, Level::ulp(8.0)).share_of_limit, 0.5);
}

TEST(Compare, RelToleratesUpToItsLimitAndNoMore) {
    EXPECT_TRUE(within({1.0}, {0.25}, {1.25F}).ok());
    EXPECT_TRUE(within({1.0}, {0.25}, {0.75F}).ok());
    EXPECT_FALSE(within({1.0}, {0.249}, {1.25F}).ok());
    EXPECT_TRUE(within({1.0}, {0.0}, {1.0F}).ok());
    EXPECT_FALSE(within({0.1}, {0.0}, {0.1F}).ok()) << "0.1 is no fp32 number";
    EXPECT_TRUE(within({0.0}, {0.0}, {-0.0F}).ok()) << "a distance in value knows no sign of zero";
}

TEST(Compare, GivesTheWorstShareOfTheLimitAmongThoseThatPass) {
    EXPECT_EQ(within({1.0, 1.0, 1.0}, {1.0, 1.0, 0.5}, {1.25F, 1.75F, 9.0F}).share_of_limit, 0.75);
    EXPECT_EQ(within({1.0, 1.0}, {1.0, 1.0}, {1.0F, 2.0F}).share_of_limit, 1.0);
    EXPECT_EQ(within({1.0}, {0.0}, {1.0F}).share_of_limit, 0.0);
    EXPECT_EQ(exact({1.0F}, {2.0F}).share_of_limit, 0.0);
}

TEST(Compare, PassesOnlyWhatIsKnownToBeWithinTheLimit) {
    EXPECT_FALSE(within({1.0}, {not_a_number}, {1.0F}).ok()) << "a limit that is no number";
    EXPECT_FALSE(within({1.0}, {-1.0}, {1.0F}).ok());
    EXPECT_FALSE(within({not_a_number}, {1.0}, {1.0F}).ok()) << "a distance that is no number";
    EXPECT_FALSE(within({infinite}, {infinite}, {infinity}).ok()) << "the reference itself is no number";
    EXPECT_FALSE(within({1.0}, {infinite}, {infinity}).ok());
}

TEST(Compare, AnInfiniteLimitProvesNothing) {
    const Comparison comparison = within({1.0, 1.0}, {infinite, 1.0}, {2.0F, 1.0F});
    EXPECT_TRUE(comparison.ok());
    EXPECT_EQ(comparison.unbounded, 1);
    EXPECT_EQ(comparison.compared, 1) << "what nothing could exceed is not compared";
    EXPECT_EQ(comparison.nonzero, 1);
    const Comparison all = within({1.0}, {infinite}, {2.0F});
    EXPECT_EQ(verdict(all.compared, all.mismatched, all.nonzero, 1), Status::untested);
}

TEST(Compare, RefusesALevelThatBitsAloneCannotGive) {
    const std::vector<float> one{1.0F};
    EXPECT_TRUE(contains(error_of([&] { static_cast<void>(compare(one, one, Level::rel())); }), "REL"));
    EXPECT_TRUE(contains(error_of([&] { static_cast<void>(compare(one, one, Level::bf16())); }), "BF16"));
    EXPECT_TRUE(contains(error_of([&] {
                             static_cast<void>(compare(one, one, Level{LevelKind::stat, 0.0}));
                         }),
                         "STAT"));
    EXPECT_TRUE(contains(error_of([] {
                             static_cast<void>(within({1.0, 2.0}, {1.0}, {1.0F, 2.0F}));
                         }),
                         "one limit for each value"));
}

TEST(Compare, WritesAValueWithItsBits) {
    EXPECT_EQ(with_bits(-0.5F), "-0.5 (0xbf000000)");
    EXPECT_EQ(with_bits(-0.0F), "-0 (0x80000000)");
    EXPECT_EQ(with_bits(0.1F), "0.1 (0x3dcccccd)");
    EXPECT_EQ(with_bits(infinity), "inf (0x7f800000)");
    EXPECT_EQ(with_bits(from_bits(0x7fc0'0001U)), "nan (0x7fc00001)");
    EXPECT_EQ(with_bits(least_subnormal), "1e-45 (0x00000001)");
}

// Masks.

using Bytes = std::vector<std::uint8_t>;

TEST(CompareMasks, NamesTheCoordinateOfAWrongBit) {
    const Comparison comparison = compare_masks(Bytes{0b0000'0101, 0b1}, Bytes{0b0000'0001, 0b11}, 10);
    EXPECT_EQ(comparison.compared, 10) << "bits, not bytes";
    EXPECT_EQ(comparison.nonzero, 3);
    EXPECT_EQ(indices(comparison.first), (std::vector<Index>{2, 9}));
    EXPECT_EQ(comparison.first[0].expected, 1.0F);
    EXPECT_EQ(comparison.first[0].actual, 0.0F);
    EXPECT_EQ(comparison.first[1].expected, 0.0F);
    EXPECT_EQ(comparison.first[1].actual, 1.0F);
    EXPECT_TRUE(compare_masks(Bytes{0b0000'0101, 0b1}, Bytes{0b0000'0101, 0b1}, 10).ok());
}

TEST(CompareMasks, BitsBeyondTheLastCoordinateMustBeZero) {
    const Comparison comparison = compare_masks(Bytes{0, 0}, Bytes{0, 0b1000'0000}, 10);
    EXPECT_FALSE(comparison.ok());
    EXPECT_EQ(indices(comparison.first), (std::vector<Index>{15}));
    EXPECT_EQ(comparison.compared, 11) << "good bits beyond the last coordinate do not count";
    EXPECT_TRUE(contains(details(compare_masks(Bytes{0, 0, 0}, Bytes{0, 0, 0b1000'0000}, 20), layout, ""),
                         "beyond the last parameter (bit 23)"));
}

TEST(CompareMasks, AnAllowedBitMayDifferAndStillShows) {
    const Bytes allowed{0b0000'0110};
    const Comparison comparison = compare_masks(Bytes{0b0000'0010}, Bytes{0b0000'0100}, 8, allowed);
    EXPECT_TRUE(comparison.ok());
    ASSERT_TRUE(comparison.greatest.has_value()) << "not all bits agree";
    EXPECT_EQ(comparison.greatest->index, 1);
    const Comparison another = compare_masks(Bytes{0b0000'0010}, Bytes{0b0000'1000}, 8, allowed);
    EXPECT_EQ(indices(another.first), (std::vector<Index>{3}));
    EXPECT_FALSE(compare_masks(Bytes{0, 0}, Bytes{0, 0b1000'0000}, 10, allowed).ok());
}

TEST(CompareMasks, MasksOfOtherSizesNeverPass) {
    EXPECT_FALSE(compare_masks(Bytes{1, 0}, Bytes{1}, 10).ok());
    EXPECT_FALSE(compare_masks(Bytes{1}, Bytes{1, 0}, 8).ok());
    EXPECT_FALSE(compare_masks(Bytes{}, Bytes{1}, 8).ok());
}

} // namespace
} // namespace truestep::verify
