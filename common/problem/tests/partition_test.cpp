// Tests ranges and segments under both partition rules, and the checks of given segments.
#include <truestep/problem/partition.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

namespace truestep::problem {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

constexpr std::array worker_counts{1, 2, 3, 4, 5, 7, 8};
constexpr std::array rules{PartitionRule::by_shard, PartitionRule::by_tensor};

/// Sizes that do not divide, around word edges, none, and one tensor that outweighs the rest.
std::vector<Layout> layouts() {
    return {
        Layout({{"one", 1}}),
        Layout({{"a", 3}, {"b", 1}}),
        Layout({{"a", 64}, {"b", 1, true}, {"c", 63}, {"d", 65}}),
        Layout({{"none", 0}, {"a", 10}, {"nothing", 0}, {"b", 10}, {"c", 10}, {"zero", 0}}),
        Layout({{"small", 2}, {"large", 1000}, {"tiny", 1}}),
        Layout({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}, {"g", 1}, {"h", 1}, {"i", 1}}),
        Layout({{"embedding", 4096}, {"norm", 17, true}, {"head", 4097}})};
}

Index largest_tensor(const Layout& layout, const Range& range) {
    Index largest = 0;
    for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor)
        if (layout.begin(tensor) >= range.begin && layout.end(tensor) <= range.end)
            largest = std::max(largest, layout.tensors()[tensor].size);
    return largest;
}

TEST(RangesTest, EveryRankHasOneAndTogetherTheyCoverTheVectorInOrder) {
    for (const Layout& layout : layouts())
        for (const int workers : worker_counts)
            for (const PartitionRule rule : rules) {
                const std::vector<Range> result = ranges(layout, workers, rule);
                ASSERT_EQ(result.size(), static_cast<std::size_t>(workers));
                Index covered = 0;
                for (const Range& range : result) {
                    EXPECT_EQ(range.begin, covered);
                    EXPECT_GE(range.size(), 0);
                    covered = range.end;
                }
                EXPECT_EQ(covered, layout.size());
            }
}

TEST(RangesTest, ByShardGivesEveryRankTheCeilingOfAnEqualShareUntilNothingIsLeft) {
    for (const Layout& layout : layouts())
        for (const int workers : worker_counts) {
            const Index length = (layout.size() + workers - 1) / workers;
            Index begin = 0;
            for (const Range& range : ranges(layout, workers, PartitionRule::by_shard)) {
                EXPECT_EQ(range.size(), std::min(length, layout.size() - begin));
                begin += range.size();
            }
        }
}

TEST(RangesTest, ByShardMayLeaveTheLastRangesShorterOrEmpty) {
    const Layout ten({{"a", 10}});
    EXPECT_THAT(ranges(ten, 4, PartitionRule::by_shard),
                ElementsAre(Range{0, 3}, Range{3, 6}, Range{6, 9}, Range{9, 10}));
    // With shares of 2, five ranks cover the vector.
    EXPECT_THAT(ranges(ten, 7, PartitionRule::by_shard),
                ElementsAre(Range{0, 2}, Range{2, 4}, Range{4, 6}, Range{6, 8}, Range{8, 10}, Range{10, 10},
                            Range{10, 10}));
}

TEST(RangesTest, MoreWorkersThanParametersLeavesRanksWithNothing) {
    const Layout layout({{"a", 2}, {"b", 1}});
    EXPECT_THAT(ranges(layout, 5, PartitionRule::by_shard),
                ElementsAre(Range{0, 1}, Range{1, 2}, Range{2, 3}, Range{3, 3}, Range{3, 3}));
    // Middles at 1 and 2.5 of 3: in the shares of ranks 1 and 4 of five.
    EXPECT_THAT(ranges(layout, 5, PartitionRule::by_tensor),
                ElementsAre(Range{0, 0}, Range{0, 2}, Range{2, 2}, Range{2, 2}, Range{2, 3}));
}

TEST(RangesTest, ByTensorCutsOnlyBetweenTensors) {
    for (const Layout& layout : layouts())
        for (const int workers : worker_counts)
            for (const Range& range : ranges(layout, workers, PartitionRule::by_tensor)) {
                bool border = range.begin == layout.size();
                for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor)
                    border = border || layout.begin(tensor) == range.begin;
                EXPECT_TRUE(border) << range.begin;
            }
}

TEST(RangesTest, ByTensorGivesNoRankMoreThanItsShareAndItsLargestTensor) {
    for (const Layout& layout : layouts())
        for (const int workers : worker_counts)
            for (const Range& range : ranges(layout, workers, PartitionRule::by_tensor))
                EXPECT_LE(static_cast<double>(range.size()),
                          static_cast<double>(layout.size()) / workers +
                              static_cast<double>(largest_tensor(layout, range)));
}

TEST(RangesTest, ByTensorDealsEqualTensorsEvenly) {
    const Layout layout({{"a", 5}, {"b", 5}, {"c", 5}, {"d", 5}, {"e", 5}, {"f", 5}});
    EXPECT_THAT(ranges(layout, 3, PartitionRule::by_tensor),
                ElementsAre(Range{0, 10}, Range{10, 20}, Range{20, 30}));
    EXPECT_THAT(ranges(layout, 2, PartitionRule::by_tensor), ElementsAre(Range{0, 15}, Range{15, 30}));
}

TEST(RangesTest, ByTensorDoesNotOverflowOnTheLargestModels) {
    constexpr Index half = std::numeric_limits<Index>::max() / 2048;
    const Layout layout({{"a", half}, {"b", half}});
    const std::vector<Range> result = ranges(layout, most_workers, PartitionRule::by_tensor);
    // Middles at a quarter and three quarters of the vector.
    constexpr std::size_t quarter = most_workers / 4;
    EXPECT_EQ(result[quarter - 1], (Range{0, 0}));
    EXPECT_EQ(result[quarter], (Range{0, half}));
    EXPECT_EQ(result[3 * quarter], (Range{half, 2 * half}));
}

TEST(RangesTest, ByTensorIsDefinedWhereEverythingIsInOneTensor) {
    EXPECT_THAT(ranges(Layout({{"none", 0}, {"all", 9}}), 3, PartitionRule::by_tensor),
                ElementsAre(Range{0, 0}, Range{0, 9}, Range{9, 9}));
}

TEST(RangesTest, AnImpossibleNumberOfWorkersIsRefused) {
    const Layout layout({{"a", 4}});
    for (const PartitionRule rule : rules) {
        EXPECT_THAT([&] { static_cast<void>(ranges(layout, 0, rule)); },
                    ThrowsMessage<Error>("workers is 0; it must be 1 to 1048576"));
        EXPECT_THAT([&] { static_cast<void>(ranges(layout, -3, rule)); },
                    ThrowsMessage<Error>("workers is -3; it must be 1 to 1048576"));
        EXPECT_THAT([&] { static_cast<void>(ranges(layout, most_workers + 1, rule)); },
                    ThrowsMessage<Error>("workers is 1048577; it must be 1 to 1048576"));
    }
}

TEST(SegmentsTest, AreTheRangesCutAtTheTensorsBorders) {
    const Layout layout({{"a", 5}, {"norm", 3, true}, {"b", 4}});
    EXPECT_THAT(segments(layout, ranges(layout, 2, PartitionRule::by_shard)),
                ElementsAre(Segment{0, 5, 0, false}, Segment{5, 6, 0, true}, Segment{6, 8, 1, true},
                            Segment{8, 12, 1, false}));
}

TEST(SegmentsTest, ATensorMaySpanSeveralRanks) {
    const Layout layout({{"a", 7}});
    EXPECT_THAT(segments(layout, ranges(layout, 3, PartitionRule::by_shard)),
                ElementsAre(Segment{0, 3, 0, false}, Segment{3, 6, 1, false}, Segment{6, 7, 2, false}));
}

TEST(SegmentsTest, ATensorOfSizeZeroHasNone) {
    const Layout layout({{"none", 0}, {"a", 2}, {"nothing", 0, true}, {"b", 2}, {"zero", 0}});
    EXPECT_THAT(segments(layout, ranges(layout, 1, PartitionRule::by_tensor)),
                ElementsAre(Segment{0, 2, 0, false}, Segment{2, 4, 0, false}));
}

TEST(SegmentsTest, ThoseOfEitherRulePassTheCheckForSegmentsOfOthers) {
    for (const Layout& layout : layouts())
        for (const int workers : worker_counts)
            for (const PartitionRule rule : rules) {
                const std::vector<Segment> pieces = segments(layout, ranges(layout, workers, rule));
                EXPECT_EQ(checked_segments(layout, workers, pieces), pieces);
            }
}

class CheckedSegmentsTest : public ::testing::Test {
  protected:
    [[nodiscard]] auto checking(std::vector<Segment> pieces) const {
        return
            [this, pieces = std::move(pieces)] { static_cast<void>(checked_segments(layout_, 3, pieces)); };
    }

    const Layout layout_{{{"a", 6}, {"norm", 2, true}, {"b", 4}}};
};

TEST_F(CheckedSegmentsTest, OwnersMayComeInAnyOrder) {
    // As in one version of the artifact, where tensor i belongs to rank i mod P.
    const Layout layout({{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}});
    const std::vector<Segment> pieces{{0, 1, 0}, {1, 3, 1}, {3, 6, 2}, {6, 10, 0}, {10, 15, 1}};
    EXPECT_EQ(checked_segments(layout, 3, pieces), pieces);
}

TEST_F(CheckedSegmentsTest, AlwaysDenseIsTakenFromTheLayout) {
    EXPECT_THAT(checked_segments(layout_, 3, {{0, 6, 2, true}, {6, 8, 1, false}, {8, 12, 0}}),
                ElementsAre(Segment{0, 6, 2, false}, Segment{6, 8, 1, true}, Segment{8, 12, 0, false}));
}

TEST_F(CheckedSegmentsTest, AGapIsRefused) {
    EXPECT_THAT(
        checking({{0, 5, 0}, {6, 8, 0}}),
        ThrowsMessage<Error>("segments: segment 1 [6, 8) does not begin at 5, where the one before it "
                             "ends; segments must ascend and cover every parameter"));
}

TEST_F(CheckedSegmentsTest, AnOverlapIsRefused) {
    EXPECT_THAT(
        checking({{0, 6, 0}, {5, 8, 0}}),
        ThrowsMessage<Error>("segments: segment 1 [5, 8) does not begin at 6, where the one before it "
                             "ends; segments must ascend and cover every parameter"));
}

TEST_F(CheckedSegmentsTest, AFirstSegmentThatSkipsTheBeginningIsRefused) {
    EXPECT_THAT(
        checking({{1, 6, 0}}),
        ThrowsMessage<Error>("segments: segment 0 [1, 6) does not begin at 0, where the one before it "
                             "ends; segments must ascend and cover every parameter"));
}

TEST_F(CheckedSegmentsTest, AnEmptyOrReversedSegmentIsRefused) {
    EXPECT_THAT(checking({{0, 0, 0}}),
                ThrowsMessage<Error>("segments: segment 0 [0, 0) is empty or reaches past the last of 12 "
                                     "parameters; correct its end"));
    EXPECT_THAT(checking({{0, 6, 0}, {6, 4, 0}}),
                ThrowsMessage<Error>("segments: segment 1 [6, 4) is empty or reaches past the last of 12 "
                                     "parameters; correct its end"));
}

TEST_F(CheckedSegmentsTest, ASegmentPastTheLastParameterIsRefused) {
    EXPECT_THAT(checking({{0, 6, 0}, {6, 8, 0}, {8, 13, 0}}),
                ThrowsMessage<Error>("segments: segment 2 [8, 13) is empty or reaches past the last of 12 "
                                     "parameters; correct its end"));
}

TEST_F(CheckedSegmentsTest, ASegmentAcrossATensorsBorderIsRefused) {
    EXPECT_THAT(checking({{0, 7, 0}, {7, 8, 0}, {8, 12, 0}}),
                ThrowsMessage<Error>("segments: segment 0 [0, 7) reaches past the end of tensor a at 6; a "
                                     "segment lies inside one tensor"));
}

TEST_F(CheckedSegmentsTest, AnOwnerThatIsNoRankIsRefused) {
    EXPECT_THAT(checking({{0, 6, 3}}),
                ThrowsMessage<Error>("segments: segment 0 [0, 6) has owner 3; an owner is 0 to 2"));
    EXPECT_THAT(checking({{0, 6, 0}, {6, 8, -1}}),
                ThrowsMessage<Error>("segments: segment 1 [6, 8) has owner -1; an owner is 0 to 2"));
}

TEST_F(CheckedSegmentsTest, SegmentsThatEndTooEarlyAreRefused) {
    EXPECT_THAT(
        checking({{0, 6, 0}, {6, 8, 0}}),
        ThrowsMessage<Error>("segments: they end at 8 of 12 parameters; they must cover every parameter"));
    EXPECT_THAT(
        checking({}),
        ThrowsMessage<Error>("segments: they end at 0 of 12 parameters; they must cover every parameter"));
}

Index count(Index size, double density, KRounding rounding = KRounding::floor) {
    return selected_count({0, size, 0, false}, density, rounding);
}

TEST(SelectedCountTest, IsTheFloorOfTheProduct) {
    EXPECT_EQ(count(10, 0.25), 2);
    EXPECT_EQ(count(100, 0.1), 10);
    EXPECT_EQ(count(199, 0.01), 1);
    EXPECT_EQ(count(200, 0.01), 2);
    EXPECT_EQ(count(4097, 0.5), 2048);
}

TEST(SelectedCountTest, IsTheCeilingWhereATraceSaysSo) {
    EXPECT_EQ(count(10, 0.25, KRounding::ceil), 3);
    EXPECT_EQ(count(10, 0.5, KRounding::ceil), 5);
    EXPECT_EQ(count(199, 0.01, KRounding::ceil), 2);
}

TEST(SelectedCountTest, IsAtLeastOne) {
    for (const KRounding rounding : {KRounding::floor, KRounding::ceil}) {
        EXPECT_EQ(count(1, 0.001, rounding), 1);
        EXPECT_EQ(count(999, 0.001, rounding), 1);
        EXPECT_EQ(count(1, std::numeric_limits<double>::denorm_min(), rounding), 1);
    }
}

TEST(SelectedCountTest, TakesTheProductInDouble) {
    EXPECT_EQ(count(10, 0.7), 7);
    // In fp32, which the rule does not use, this would give 6.
    EXPECT_LT(static_cast<double>(0.7F) * 10.0, 7.0);
    // This product, which should be 3, is above it in double.
    EXPECT_EQ(count(10, 0.1 + 0.2), 3);
    EXPECT_EQ(count(10, 0.1 + 0.2, KRounding::ceil), 4);
}

TEST(SelectedCountTest, IsTheWholeSegmentAtDensityOne) {
    for (const Index size : {1, 2, 63, 64, 65, 4097})
        for (const KRounding rounding : {KRounding::floor, KRounding::ceil})
            EXPECT_EQ(count(size, 1.0, rounding), size);
}

TEST(SelectedCountTest, IsNeverMoreThanTheSegment) {
    const double below_one = std::nextafter(1.0, 0.0);
    EXPECT_EQ(count(3, below_one), 2);
    EXPECT_EQ(count(3, below_one, KRounding::ceil), 3);
}

TEST(SelectedCountTest, IsTheWholeOfAnAlwaysDenseSegment) {
    EXPECT_EQ(selected_count({10, 27, 0, true}, 0.001, KRounding::floor), 17);
}

} // namespace
} // namespace truestep::problem
