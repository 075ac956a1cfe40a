// Section 5 on Eigen: every operation rounds as IEEE 754 says, at every width of the machine's registers.
#include <truestep/reference/vector.hpp>

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "support.hpp"

namespace truestep::reference::scape {
namespace {

/// Any finite bit pattern without its sign, so that every exponent is as likely as every other.
template <class T>
Vector<T> magnitudes_of_every_size(std::mt19937_64& generator, Index size) {
    Vector<T> result(size);
    for (Index index = 0; index < size; ++index) {
        T value;
        do {
            value = std::bit_cast<T>(static_cast<decltype(bits_of(T{}))>(generator()));
        } while (!std::isfinite(value));
        result[index] = std::fabs(value);
    }
    return result;
}

/// Every class of subnormal: the smallest ones, each power of two, random ones, the greatest.
template <class T>
Vector<T> subnormals() {
    constexpr T least = std::numeric_limits<T>::denorm_min();
    std::vector<T> values;
    for (int count = 1; count < 300; ++count)
        values.push_back(static_cast<T>(count) * least);
    for (int exponent = 0; exponent < std::numeric_limits<T>::digits - 1; ++exponent)
        values.push_back(std::ldexp(least, exponent));
    std::mt19937_64 generator(5);
    const auto greatest = bits_of(std::numeric_limits<T>::min()) - 1;
    for (int count = 0; count < 10'000; ++count)
        values.push_back(std::bit_cast<T>(static_cast<decltype(bits_of(T{}))>(generator() % greatest + 1)));
    values.push_back(std::bit_cast<T>(greatest));
    return Eigen::Map<const Vector<T>>(values.data(), static_cast<Index>(values.size()));
}

template <class T>
class ArithmeticTest : public ::testing::Test {};
TYPED_TEST_SUITE(ArithmeticTest, Scalars);

TYPED_TEST(ArithmeticTest, TheRootIsThatOfIeeeForAMillionValues) {
    using T = TypeParam;
    std::mt19937_64 generator(1);
    const Vector<T> x = magnitudes_of_every_size<T>(generator, 1'000'003);
    const Vector<T> root = x.sqrt();
    for (Index index = 0; index < x.size(); ++index)
        ASSERT_TRUE(same_bits(root[index], std::sqrt(x[index])));
}

TYPED_TEST(ArithmeticTest, TheRootIsThatOfIeeeForSubnormals) {
    using T = TypeParam;
    const Vector<T> x = subnormals<T>();
    const Vector<T> root = x.sqrt();
    for (Index index = 0; index < x.size(); ++index) {
        ASSERT_TRUE(same_bits(root[index], std::sqrt(x[index])));
        ASSERT_GT(root[index], T(0));
    }
}

TYPED_TEST(ArithmeticTest, TheRootOfZeroIsZero) {
    using T = TypeParam;
    const Vector<T> root = Vector<T>::Zero(19).sqrt();
    EXPECT_TRUE(same_bits<T>(root, Vector<T>::Zero(19)));
}

TYPED_TEST(ArithmeticTest, DivisionIsThatOfIeee) {
    using T = TypeParam;
    std::mt19937_64 generator(2);
    const Vector<T> x = random_vector<T>(generator, 100'003);
    const Vector<T> y = random_vector<T>(generator, 100'003);
    const Vector<T> quotient = x / y;
    const Vector<T> by_scalar = x / T(3);
    for (Index index = 0; index < x.size(); ++index) {
        ASSERT_TRUE(same_bits<T>(quotient[index], x[index] / y[index]));
        ASSERT_TRUE(same_bits<T>(by_scalar[index], x[index] / T(3)));
    }
}

TYPED_TEST(ArithmeticTest, AProductIsRoundedBeforeItIsAdded) {
    using T = TypeParam;
    std::mt19937_64 generator(3);
    const Vector<T> m = random_vector<T>(generator, 10'007);
    const Vector<T> g = random_vector<T>(generator, 10'007);
    const T b1 = T(0.9);
    const T a1 = T(0.1);
    const Vector<T> M = (b1 * m) + (a1 * g);
    Index differs_when_fused = 0;
    for (Index index = 0; index < m.size(); ++index) {
        const T product = b1 * m[index];
        ASSERT_TRUE(same_bits<T>(M[index], product + a1 * g[index]));
        differs_when_fused += M[index] != std::fma(a1, g[index], product) ? 1 : 0;
    }
    EXPECT_GT(differs_when_fused, 100);
}

TYPED_TEST(ArithmeticTest, SubnormalsAreKept) {
    using T = TypeParam;
    const Vector<T> x = subnormals<T>();
    const Vector<T> same = x * T(1);
    const Vector<T> sum = x + x;
    const Vector<T> ratio = sum / x;
    const Vector<T> smaller = Vector<T>::Constant(x.size(), std::numeric_limits<T>::min()) - x;
    EXPECT_TRUE(same_bits(same, x));
    for (Index index = 0; index < x.size(); ++index) {
        ASSERT_TRUE(same_bits<T>(sum[index], T(2) * x[index]));
        ASSERT_EQ(ratio[index], T(2));
        ASSERT_GT(smaller[index], T(0));
    }
    const Vector<T> underflow = Vector<T>::Constant(19, std::numeric_limits<T>::min()) * T(0.25);
    for (const T value : underflow)
        EXPECT_TRUE(same_bits(value, std::numeric_limits<T>::min() / T(4)));
}

TYPED_TEST(ArithmeticTest, TheSignOfZeroFollowsIeee) {
    using T = TypeParam;
    const Vector<T> minus = Vector<T>::Constant(19, -T(0));
    const Vector<T> plus = Vector<T>::Zero(19);
    EXPECT_TRUE(same_bits<T>(minus + plus, plus));
    EXPECT_TRUE(same_bits<T>(minus + minus, minus));
    EXPECT_TRUE(same_bits<T>(minus * T(0.9), minus));
    EXPECT_TRUE(same_bits<T>(minus / T(3), minus));
    EXPECT_TRUE(same_bits<T>(minus - plus, minus));
}

TYPED_TEST(ArithmeticTest, RoundingIsToNearestAndTiesToEven) {
    using T = TypeParam;
    const T half = std::numeric_limits<T>::epsilon() / T(2);
    const Vector<T> one = Vector<T>::Constant(19, T(1));
    const Vector<T> down = one + half;
    const Vector<T> up = (one + T(2) * half) + half;
    EXPECT_TRUE(same_bits(down, one));
    EXPECT_TRUE(same_bits<T>(up, one + T(4) * half));
}

} // namespace
} // namespace truestep::reference::scape
