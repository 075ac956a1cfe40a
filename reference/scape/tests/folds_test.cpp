// Tests in which order the reference adds: means over ranks and groups, norms by blocks and trees.
#include <truestep/reference/scape/folds.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support.hpp"

namespace truestep::reference::scape {
namespace {

using problem::NormVersion;

template <class T>
class MeanTest : public ::testing::Test {
  protected:
    static T mean(std::initializer_list<T> of_ranks) {
        PerRank<T> x;
        for (const T value : of_ranks)
            x.push_back(vector_of<T>({value}));
        return mean_in_rank_order(x)[0];
    }

    static constexpr T half_an_ulp = std::numeric_limits<T>::epsilon() / T(2);
};
TYPED_TEST_SUITE(MeanTest, Scalars);

TYPED_TEST(MeanTest, AddsInAscendingRankOrder) {
    using T = TypeParam;
    const T tiny = this->half_an_ulp;
    // Each half of an ULP is lost beside the one, but together they count. In fp32 a sum in double would
    // keep them too.
    EXPECT_TRUE(same_bits(this->mean({T(1), tiny, tiny}), T(1) / T(3)));
    EXPECT_TRUE(same_bits(this->mean({tiny, tiny, T(1)}), (T(1) + 2 * tiny) / T(3)));
    EXPECT_FALSE(same_bits(T(1) / T(3), (T(1) + 2 * tiny) / T(3)));
}

TYPED_TEST(MeanTest, AddsOneRankAfterTheOtherAndNotInPairs) {
    using T = TypeParam;
    const T tiny = this->half_an_ulp;
    // In pairs, (1 + tiny) + (tiny + tiny) would keep the second pair.
    EXPECT_TRUE(same_bits(this->mean({T(1), tiny, tiny, tiny}), T(0.25)));
}

TYPED_TEST(MeanTest, DividesAndDoesNotMultiplyByTheReciprocal) {
    using T = TypeParam;
    const T five = T(5);
    ASSERT_FALSE(same_bits(five / T(3), five * (T(1) / T(3))));
    EXPECT_TRUE(same_bits(this->mean({five, T(0), T(0)}), five / T(3)));
    const T nine = T(9);
    ASSERT_FALSE(same_bits(nine / T(7), nine * (T(1) / T(7))));
    EXPECT_TRUE(same_bits(this->mean({T(9), T(0), T(0), T(0), T(0), T(0), T(0)}), nine / T(7)));
}

TYPED_TEST(MeanTest, DividesOnceAndAfterTheSum) {
    using T = TypeParam;
    ASSERT_FALSE(same_bits(T(5) / T(3), T(1) / T(3) + T(1) / T(3) + T(3) / T(3)));
    EXPECT_TRUE(same_bits(this->mean({T(1), T(1), T(3)}), T(5) / T(3)));
}

TYPED_TEST(MeanTest, OfOneRankIsItsValueInEveryBit) {
    using T = TypeParam;
    for (const T value :
         {T(0), -T(0), T(0.1), std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max()})
        EXPECT_TRUE(same_bits(this->mean({value}), value));
}

TYPED_TEST(MeanTest, KeepsTheSignOfZeroAsAdditionDoes) {
    using T = TypeParam;
    EXPECT_TRUE(same_bits(this->mean({-T(0), -T(0), -T(0)}), -T(0)));
    EXPECT_TRUE(same_bits(this->mean({-T(0), T(0), -T(0)}), T(0)));
    EXPECT_TRUE(same_bits(this->mean({T(1), T(-1), -T(0)}), T(0)));
}

TYPED_TEST(MeanTest, KeepsSubnormals) {
    using T = TypeParam;
    const T least = std::numeric_limits<T>::denorm_min();
    EXPECT_TRUE(same_bits(this->mean({least, least, least}), least));
    EXPECT_TRUE(same_bits(this->mean({8 * least, least, T(0)}), 3 * least));
}

TYPED_TEST(MeanTest, OnAMaskIsTheMeanOfItsCoordinatesInItsOrder) {
    using T = TypeParam;
    for (const int workers : {1, 2, 3, 4, 5, 7, 8}) {
        const PerRank<T> x = random_gradients<T>(workers, 67, 1);
        const Coordinates S{0, 3, 4, 31, 32, 66};
        const Vector<T> packed = mean_in_rank_order(x, S);
        const Vector<T> full = mean_in_rank_order(x);
        ASSERT_EQ(packed.size(), 6);
        EXPECT_TRUE(same_bits<T>(packed, full(S)));
    }
}

TYPED_TEST(MeanTest, InGroupsAddsRanksThenGroupsAndDividesOnce) {
    using T = TypeParam;
    const T tiny = this->half_an_ulp;
    const auto in_groups = [](const problem::Groups& groups, std::initializer_list<T> of_ranks) {
        PerRank<T> x;
        for (const T value : of_ranks)
            x.push_back(vector_of<T>({value}));
        return mean_in_groups(x, groups)[0];
    };
    // 1 + (tiny + tiny) keeps what (1 + tiny) + tiny loses.
    EXPECT_TRUE(same_bits(in_groups({2, 1}, {T(1), tiny, tiny}), T(1) / T(3)));
    EXPECT_TRUE(same_bits(in_groups({1, 2}, {T(1), tiny, tiny}), (T(1) + 2 * tiny) / T(3)));
    // Groups in ascending order: (1 + tiny) + tiny, where backwards it would be (tiny + tiny) + 1.
    EXPECT_TRUE(same_bits(in_groups({1, 1, 2}, {T(1), tiny, tiny / 2, tiny / 2}), T(1) / T(4)));
    // Divided by P once, whatever the groups' sizes.
    EXPECT_TRUE(same_bits(in_groups({1, 2}, {T(1), T(1), T(3)}), T(5) / T(3)));
    EXPECT_TRUE(same_bits(in_groups({1, 2}, {-T(0), -T(0), -T(0)}), -T(0)));
}

TYPED_TEST(MeanTest, OfOneGroupAndOfGroupsOfOneIsTheMeanInRankOrder) {
    using T = TypeParam;
    for (const int workers : {1, 2, 3, 5, 8}) {
        const PerRank<T> x = random_gradients<T>(workers, 67, 3);
        const Vector<T> mean = mean_in_rank_order(x);
        EXPECT_TRUE(same_bits<T>(mean_in_groups(x, {}), mean));
        EXPECT_TRUE(same_bits<T>(mean_in_groups(x, {workers}), mean));
        EXPECT_TRUE(
            same_bits<T>(mean_in_groups(x, problem::Groups(static_cast<std::size_t>(workers), 1)), mean));
    }
}

TYPED_TEST(MeanTest, AgreesWithAPlainLoopForEveryNumberOfWorkers) {
    using T = TypeParam;
    for (const int workers : {1, 2, 3, 4, 5, 7, 8}) {
        const PerRank<T> x = random_gradients<T>(workers, 131, 2);
        const Vector<T> mean = mean_in_rank_order(x);
        for (Index index = 0; index < mean.size(); ++index) {
            T sum = x[0][index];
            for (int rank = 1; rank < workers; ++rank)
                sum += x[static_cast<std::size_t>(rank)][index];
            EXPECT_TRUE(same_bits(mean[index], sum / static_cast<T>(workers)));
        }
    }
}

/// The value of lane j after lanes have been added down to `width`, computed backwards from the
/// result.
double folded(const std::vector<double>& lanes, std::size_t j, std::size_t width) {
    return width == lanes.size() ? lanes[j]
                                 : folded(lanes, j, 2 * width) + folded(lanes, j + width, 2 * width);
}

/// The sum of a tree over `width` blocks, a power of two, of which those behind the last are
/// missing.
double tree(const std::vector<double>& sums, std::size_t begin, std::size_t width) {
    if (width == 1)
        return sums[begin];
    const double left = tree(sums, begin, width / 2);
    return begin + width / 2 < sums.size() ? left + tree(sums, begin + width / 2, width / 2) : left;
}

template <class T>
double plain_norm(const Vector<T>& x, NormVersion version) {
    std::vector<double> sums;
    for (Index block = 0; block * 4096 < x.size(); ++block) {
        std::vector<double> lanes;
        for (Index j = 0; j < 256; ++j) {
            double sum = 0.0;
            for (Index row = 0; row < 16; ++row)
                if (const Index i = 4096 * block + 256 * row + j; i < x.size())
                    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
            lanes.push_back(sum);
        }
        sums.push_back(folded(lanes, 0, 1));
    }
    if (sums.empty())
        return 0.0;
    return std::sqrt(version == NormVersion::tree ? tree(sums, 0, std::bit_ceil(sums.size()))
                                                  : std::accumulate(sums.begin(), sums.end(), 0.0));
}

template <class T>
class NormTest : public ::testing::Test {};
TYPED_TEST_SUITE(NormTest, Scalars);

TYPED_TEST(NormTest, AgreesWithAPlainLoopInEveryBit) {
    using T = TypeParam;
    std::mt19937_64 generator(3);
    for (const Index size : {0, 1, 2, 255, 256, 257, 511, 512, 513, 4095, 4096, 4097, 8192, 8193, 10000,
                             20000, 40000, 45056, 45057})
        for (int repeat = 0; repeat < 20; ++repeat) {
            const Vector<T> x = random_vector<T>(generator, size);
            for (const NormVersion version : {NormVersion::ascending, NormVersion::tree})
                EXPECT_TRUE(same_bits(norm_in_blocks<double>(x, version), plain_norm(x, version))) << size;
        }
}

TYPED_TEST(NormTest, OfNothingIsZero) {
    using T = TypeParam;
    EXPECT_TRUE(same_bits(norm_in_blocks<double>(Vector<T>(), NormVersion::tree), 0.0));
}

TYPED_TEST(NormTest, OfThreeAndFourIsFive) {
    using T = TypeParam;
    EXPECT_EQ(norm_in_blocks<double>(vector_of<T>({T(3), T(-4)}), NormVersion::tree), 5.0);
}

TYPED_TEST(NormTest, KeepsWhatASequentialSumLoses) {
    using T = TypeParam;
    // One block of a 1 and 4095 values whose squares, 2^-54, are each a quarter of an ULP of it: lane 0
    // loses its 15, the other 255 lanes collect 16 each, 2^-50.
    Vector<T> x = Vector<T>::Constant(4096, T(0x1p-27));
    x[0] = T(1);
    double sequential = 0.0;
    for (Index i = 0; i < x.size(); ++i)
        sequential += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    EXPECT_EQ(sequential, 1.0);
    EXPECT_EQ(norm_in_blocks<double>(x, NormVersion::tree), 1.0 + 255 * 0x1p-51);
}

TYPED_TEST(NormTest, TheLanesOfABlockAreAddedInPairsAtHalfTheirNumber) {
    using T = TypeParam;
    // Squares of 0.98 * 2^-53 are lost beside a 1. In pairs 128 lanes apart they count before they meet it,
    // each pair as one ULP; with neighbours added first, half of them would be lost.
    Vector<T> x = Vector<T>::Zero(256);
    x[0] = T(1);
    for (const Index lane : {8, 16, 32, 64})
        x[lane] = x[lane + 128] = T(1.4) * T(0x1p-27);
    EXPECT_EQ(norm_in_blocks<double>(x, NormVersion::tree), 1.0 + 0x1p-51);
}

TYPED_TEST(NormTest, TheBlocksAreAddedInAscendingOrder) {
    using T = TypeParam;
    Vector<T> x = Vector<T>::Zero(17 * 4096);
    x[0] = T(1);
    for (Index block = 1; block < 17; ++block)
        x[4096 * block] = T(0x1p-27);
    EXPECT_EQ(norm_in_blocks<double>(x, NormVersion::ascending), 1.0);
    const Vector<T> reversed = x.reverse();
    EXPECT_EQ(norm_in_blocks<double>(reversed, NormVersion::ascending), 1.0 + 0x1p-51);
}

TEST(SumInTreeTest, AddsPairsAndPairsOfPairs) {
    // Beside a 1 a sum of 2^-53 is a tie and lost, of 2^-52 one ULP. So the result shows which sums
    // met before they met the 1.
    constexpr double small = 0x1p-53;
    constexpr double kept = 1.0 + 0x1p-52;
    const auto sum = [](const std::vector<double>& S) { return sum_in_tree(S); };
    EXPECT_EQ(sum({1.0, small, 0.0, small}), 1.0);
    EXPECT_EQ(sum({1.0, 0.0, small, small}), kept);
    EXPECT_EQ(sum({small, small, 1.0, 0.0}), kept);
    EXPECT_EQ(sum({small, 0.0, small, 0.0, 1.0}), kept); // the odd one is the last to come
    EXPECT_EQ(sum({1.0, 0.0, small, 0.0, small}), 1.0);
    EXPECT_EQ(sum({1.0, 0.0, 0.0, 0.0, small, 0.0, small}), kept); // and here the second but last
    EXPECT_EQ(sum({}), 0.0);
    EXPECT_EQ(sum({3.0}), 3.0);
    EXPECT_EQ(sum_ascending<double>({1.0, 0.0, small, small}), 1.0);
}

TYPED_TEST(NormTest, SquaresAreTakenInDouble) {
    using T = TypeParam;
    EXPECT_EQ(norm_in_blocks<double>(vector_of<T>({T(0x1p100)}), NormVersion::tree), 0x1p100);
    EXPECT_EQ(norm_in_blocks<double>(vector_of<T>({T(0x1p-120)}), NormVersion::tree), 0x1p-120);
    EXPECT_EQ(norm_in_blocks<double>(vector_of<T>({T(0x1p-149)}), NormVersion::tree), 0x1p-149);
}

} // namespace
} // namespace truestep::reference::scape
