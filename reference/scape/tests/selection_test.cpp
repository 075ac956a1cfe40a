// Tests the top k of a segment against a full sort: ties, zeros, subnormals, owners and counts.
#include <truestep/reference/scape/selection.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.hpp"

namespace truestep::reference::scape {
namespace {

using ::testing::ElementsAre;

/// A full, stable sort by the magnitude as a number.
template <class T>
Coordinates fully_sorted_top(const Vector<T>& c, Index begin, Index end, Index k) {
    Coordinates order;
    for (Index index = begin; index < end; ++index)
        order.push_back(index);
    std::stable_sort(order.begin(), order.end(),
                     [&c](Index a, Index b) { return std::fabs(c[a]) > std::fabs(c[b]); });
    order.resize(static_cast<std::size_t>(k));
    std::sort(order.begin(), order.end());
    return order;
}

/// Few magnitudes, so that most comparisons are ties; zeros of both signs, subnormals and infinities.
template <class T>
Vector<T> data_with_ties(std::mt19937_64& generator, Index size, std::size_t magnitudes) {
    constexpr T least = std::numeric_limits<T>::denorm_min();
    const std::array<T, 8> values{T(1),
                                  T(0),
                                  T(0.5),
                                  least,
                                  2 * least,
                                  std::nextafter(T(1), T(0)),
                                  std::numeric_limits<T>::max(),
                                  std::numeric_limits<T>::infinity()};
    Vector<T> result(size);
    for (Index index = 0; index < size; ++index) {
        const T value = values[generator() % magnitudes];
        result[index] = generator() % 2 == 0 ? value : -value;
    }
    return result;
}

template <class T>
class SelectionTest : public ::testing::Test {};
TYPED_TEST_SUITE(SelectionTest, Scalars);

TYPED_TEST(SelectionTest, AgreesWithAFullSortOnDataWithManyTies) {
    using T = TypeParam;
    std::mt19937_64 generator(11);
    for (const Index size : {1, 2, 3, 31, 32, 33, 63, 64, 65, 200})
        for (const std::size_t magnitudes : {1U, 2U, 3U, 8U})
            for (int repeat = 0; repeat < 10; ++repeat) {
                const Vector<T> c = data_with_ties<T>(generator, size, magnitudes);
                for (Index k = 1; k <= size; ++k)
                    ASSERT_EQ(select_top(c, 0, size, k), fully_sorted_top(c, 0, size, k));
            }
}

TYPED_TEST(SelectionTest, AgreesWithAFullSortOnDistinctValues) {
    using T = TypeParam;
    std::mt19937_64 generator(12);
    const Vector<T> c = random_vector<T>(generator, 1000);
    for (const Index k : {1, 10, 100, 500, 999, 1000})
        EXPECT_EQ(select_top(c, 0, 1000, k), fully_sorted_top(c, 0, 1000, k));
}

TYPED_TEST(SelectionTest, LooksAtNothingOutsideItsSegment) {
    using T = TypeParam;
    const Vector<T> c = vector_of<T>({9, 9, 1, 2, 3, 9, 9});
    EXPECT_THAT(select_top(c, 2, 5, 2), ElementsAre(3, 4));
}

TYPED_TEST(SelectionTest, TakesTheLargestMagnitudeWhateverTheSign) {
    using T = TypeParam;
    EXPECT_THAT(select_top(vector_of<T>({1, -3, 2, -2.5}), 0, 4, 2), ElementsAre(1, 3));
}

TYPED_TEST(SelectionTest, TiesGoToTheLowerIndex) {
    using T = TypeParam;
    EXPECT_THAT(select_top(vector_of<T>({1, -2, 2, -2, 2, 2}), 0, 6, 3), ElementsAre(1, 2, 3));
    EXPECT_THAT(select_top(vector_of<T>({2, 1, 3, 1, 1}), 0, 5, 3), ElementsAre(0, 1, 2));
}

TYPED_TEST(SelectionTest, MinusZeroEqualsPlusZero) {
    using T = TypeParam;
    const T zero = 0;
    EXPECT_THAT(select_top(vector_of<T>({-zero, zero, -zero, zero}), 0, 4, 2), ElementsAre(0, 1));
    EXPECT_THAT(select_top(vector_of<T>({zero, -zero, -zero, zero}), 0, 4, 2), ElementsAre(0, 1));
}

TYPED_TEST(SelectionTest, SubnormalsAreLargerThanZeroAndDifferFromEachOther) {
    using T = TypeParam;
    constexpr T least = std::numeric_limits<T>::denorm_min();
    EXPECT_THAT(select_top(vector_of<T>({0, least, -2 * least, least}), 0, 4, 1), ElementsAre(2));
    EXPECT_THAT(select_top(vector_of<T>({0, least, -2 * least, least}), 0, 4, 2), ElementsAre(1, 2));
}

TYPED_TEST(SelectionTest, OneUlpDecides) {
    using T = TypeParam;
    EXPECT_THAT(select_top(vector_of<T>({1, std::nextafter(T(1), T(2))}), 0, 2, 1), ElementsAre(1));
    EXPECT_THAT(select_top(vector_of<T>({1, std::nextafter(T(1), T(0))}), 0, 2, 1), ElementsAre(0));
}

TYPED_TEST(SelectionTest, AllOfASegmentIsAllOfIt) {
    using T = TypeParam;
    EXPECT_THAT(select_top(vector_of<T>({1, 0, 3, -0.0}), 0, 4, 4), ElementsAre(0, 1, 2, 3));
}

/// Six segments of two coordinates; segment i belongs to rank i mod 3.
problem::Problem dealt_in_turn() {
    problem::Problem problem = problem::make_problem(
        problem::Algorithm::scape, 3,
        problem::Layout({{"a", 2}, {"b", 2}, {"norm", 2, true}, {"d", 2}, {"e", 2}, {"f", 2}}),
        problem::PartitionRule::by_tensor, {});
    for (std::size_t segment = 0; segment < problem.segments.size(); ++segment)
        problem.segments[segment].owner = static_cast<int>(segment % 3);
    return problem;
}

TYPED_TEST(SelectionTest, OfEachSegmentIsMadeByItsOwnerAlone) {
    using T = TypeParam;
    // Rank 0 would choose every first coordinate, ranks 1 and 2 every second.
    PerRank<T> c(3, Vector<T>::Zero(12));
    for (Index segment = 0; segment < 6; ++segment) {
        c[0][2 * segment] = T(1);
        c[1][2 * segment + 1] = T(100);
        c[2][2 * segment + 1] = T(-100);
    }
    EXPECT_THAT(select_mask(c, dealt_in_turn(), 0.5), ElementsAre(0, 3, 4, 5, 6, 9, 11));
}

TYPED_TEST(SelectionTest, TakesEachSegmentsOwnCountAndAllOfAnAlwaysDenseOne) {
    using T = TypeParam;
    const problem::Problem problem = small_problem();
    const PerRank<T> c = random_gradients<T>(3, 40, 1);
    for (const double density : {1.0, 0.5, 0.1, 0.01, 0.001}) {
        const Coordinates S = select_mask(c, problem, density);
        EXPECT_TRUE(std::is_sorted(S.begin(), S.end()));
        for (const problem::Segment& segment : problem.segments) {
            const auto inside = [&](Index i) { return i >= segment.begin && i < segment.end; };
            const auto expected =
                segment.always_dense
                    ? segment.size()
                    : std::max<Index>(1, static_cast<Index>(density * static_cast<double>(segment.size())));
            EXPECT_EQ(std::count_if(S.begin(), S.end(), inside), expected);
        }
    }
}

TYPED_TEST(SelectionTest, CountsUpwardsWhereATraceSaysSo) {
    using T = TypeParam;
    problem::Problem problem = dealt_in_turn();
    const PerRank<T> c = random_gradients<T>(3, 12, 1);
    EXPECT_EQ(select_mask(c, problem, 0.6).size(), 7U);
    problem.settings.k_rounding = problem::KRounding::ceil;
    EXPECT_EQ(select_mask(c, problem, 0.6).size(), 12U);
}

TEST(ScoreTest, IsTheMagnitudesBits) {
    EXPECT_EQ(score(1.0F), 0x3f80'0000U);
    EXPECT_EQ(score(-1.0F), 0x3f80'0000U);
    EXPECT_EQ(score(-0.0F), 0U);
    EXPECT_EQ(score(-0x1p-149F), 1U);
    EXPECT_EQ(score(1.0), 0x3ff0'0000'0000'0000U);
    EXPECT_EQ(score(-1.0), 0x3ff0'0000'0000'0000U);
    EXPECT_EQ(score(-0.0), 0U);
    EXPECT_EQ(score(-0x1p-1074), 1U);
}

} // namespace
} // namespace truestep::reference::scape
