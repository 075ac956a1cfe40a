// Tests the scalars of a step: powers of beta, bias corrections, and one rounding from double.
#include <truestep/reference/coefficients.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include "support.hpp"

namespace truestep::reference::scape {
namespace {

using problem::BiasCorrection;

TEST(PowerTest, MultipliesTheSquaresOfTheSetBitsFromTheLowest) {
    const double b = 0.95;
    const double b2 = b * b;
    const double b4 = b2 * b2;
    const double b8 = b4 * b4;
    EXPECT_EQ(power(b, 1), b);
    EXPECT_EQ(power(b, 2), b2);
    EXPECT_EQ(power(b, 3), b * b2);
    EXPECT_EQ(power(b, 4), b4);
    EXPECT_EQ(power(b, 13), (b * b4) * b8);
}

TEST(PowerTest, IsNeitherARepeatedProductNorTheLibrarysPow) {
    double repeated = 1.0;
    for (int factor = 0; factor < 13; ++factor)
        repeated *= 0.9;
    EXPECT_NE(power(0.9, 13), repeated);
    EXPECT_NEAR(power(0.9, 13), std::pow(0.9, 13.0), 1e-15);
}

TEST(PowerTest, OfTheZerothStepIsOne) {
    EXPECT_EQ(power(0.9, 0), 1.0);
    EXPECT_EQ(power(0.0, 0), 1.0);
}

TEST(PowerTest, OfZeroIsZero) {
    EXPECT_EQ(power(0.0, 1), 0.0);
    EXPECT_EQ(power(0.0, 12345), 0.0);
}

TEST(PowerTest, VanishesAfterManySteps) {
    EXPECT_EQ(power(0.5, 1074), 0x1p-1074);
    EXPECT_EQ(power(0.5, 1075), 0.0);
    EXPECT_EQ(power(0.999, Index{1} << 62), 0.0);
}

template <class T>
class CoefficientsTest : public ::testing::Test {
  protected:
    static Coefficients<T> make(BiasCorrection correction, Index t) {
        problem::HyperParameters settings;
        settings.bias_correction = correction;
        return {settings, t, 3e-4};
    }
};
TYPED_TEST_SUITE(CoefficientsTest, Scalars);

TYPED_TEST(CoefficientsTest, AreComputedInDoubleAndRoundedOnce) {
    using T = TypeParam;
    const auto scalars = this->make(BiasCorrection::none, 1);
    EXPECT_EQ(scalars.b1, T(0.9));
    EXPECT_EQ(scalars.a1, T(1.0 - 0.9));
    EXPECT_EQ(scalars.b2, T(0.95));
    EXPECT_EQ(scalars.a2, T(1.0 - 0.95));
    EXPECT_EQ(scalars.eps, T(1e-8));
    EXPECT_EQ(scalars.lr, T(3e-4));
    EXPECT_EQ(scalars.wd, T(0.1));
    EXPECT_EQ(scalars.decay, T(1.0 - 3e-4 * 0.1));
}

TEST(CoefficientsInFp32Test, ADifferenceFromOneIsNotTakenInFp32) {
    const Coefficients<float> scalars({}, 3, 0.3);
    EXPECT_NE(1.0F - 0.9F, static_cast<float>(1.0 - 0.9));
    EXPECT_EQ(scalars.a1, static_cast<float>(1.0 - 0.9));
    EXPECT_NE(1.0F / (1.0F - static_cast<float>(power(0.9, 3))),
              static_cast<float>(1.0 / (1.0 - power(0.9, 3))));
    EXPECT_EQ(scalars.inv1, static_cast<float>(1.0 / (1.0 - power(0.9, 3))));
}

TYPED_TEST(CoefficientsTest, TheCorrectionsFollowTheStep) {
    using T = TypeParam;
    for (const Index t : {1, 2, 3, 5, 10, 1000, 1'000'000}) {
        const T inv1 = T(1.0 / (1.0 - power(0.9, t)));
        const T invs2 = T(1.0 / std::sqrt(1.0 - power(0.95, t)));
        const auto none = this->make(BiasCorrection::none, t);
        EXPECT_EQ(none.inv1, T(1));
        EXPECT_EQ(none.invs2, T(1));
        const auto adam = this->make(BiasCorrection::adam, t);
        EXPECT_EQ(adam.inv1, inv1);
        EXPECT_EQ(adam.invs2, invs2);
        const auto momentum = this->make(BiasCorrection::momentum, t);
        EXPECT_EQ(momentum.inv1, inv1);
        EXPECT_EQ(momentum.invs2, T(1));
    }
}

TYPED_TEST(CoefficientsTest, TheCorrectionsFadeAway) {
    using T = TypeParam;
    const auto adam = this->make(BiasCorrection::adam, 100'000);
    EXPECT_EQ(adam.inv1, T(1));
    EXPECT_EQ(adam.invs2, T(1));
}

TYPED_TEST(CoefficientsTest, BetasOfZeroNeedNoCorrection) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.beta1 = settings.beta2 = 0.0;
    for (const BiasCorrection correction : all_corrections)
        for (const Index t : {1, 2, 100}) {
            settings.bias_correction = correction;
            const Coefficients<T> scalars(settings, t, 3e-4);
            EXPECT_TRUE(same_bits(scalars.b1, T(0)));
            EXPECT_TRUE(same_bits(scalars.b2, T(0)));
            EXPECT_EQ(scalars.a1, T(1));
            EXPECT_EQ(scalars.a2, T(1));
            EXPECT_EQ(scalars.inv1, T(1));
            EXPECT_EQ(scalars.invs2, T(1));
        }
}

TYPED_TEST(CoefficientsTest, WithoutWeightDecayNothingDecays) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.weight_decay = 0.0;
    EXPECT_EQ((Coefficients<T>(settings, 1, 0.5).decay), T(1));
}

} // namespace
} // namespace truestep::reference::scape
