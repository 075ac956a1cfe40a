// Tests AdamW's reference: first steps, stored moments, decay, refused steps and halts.
#include <truestep/reference/scape/adamw.hpp>

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

#include "support.hpp"

namespace truestep::reference::scape {
namespace {

using problem::BiasCorrection;
using ::testing::ThrowsMessage;

template <class T>
class AdamwTest : public ::testing::Test {
  protected:
    static AdamW<T> make(const problem::HyperParameters& settings, int workers, Vector<T> parameters) {
        auto problem = problem::make_problem(problem::Algorithm::adams, workers,
                                             problem::Layout({{"a", parameters.size()}}),
                                             problem::PartitionRule::by_shard, settings);
        return {std::move(problem), std::move(parameters)};
    }

    static problem::HyperParameters without_decay() {
        problem::HyperParameters settings;
        settings.epsilon = 1e-30;
        settings.weight_decay = 0.0;
        return settings;
    }
};
TYPED_TEST_SUITE(AdamwTest, Scalars);

TYPED_TEST(AdamwTest, TheFirstStepMovesByTheLearningRateAgainstTheSign) {
    using T = TypeParam;
    const Vector<T> g = vector_of<T>({T(1), T(-1), T(0.3), T(-1e-12), T(0x1p56)});
    AdamW<T> optimizer = this->make(this->without_decay(), 1, Vector<T>::Zero(5));
    optimizer.step({g}, 0x1p-10);
    for (Index index = 0; index < g.size(); ++index)
        EXPECT_NEAR(static_cast<double>(optimizer.state.w[index] / g.sign()[index]), -0x1p-10,
                    0x1p-10 * 4 * static_cast<double>(std::numeric_limits<T>::epsilon()));
}

TYPED_TEST(AdamwTest, AConstantGradientMovesByTheLearningRateAtEveryStep) {
    using T = TypeParam;
    // M/C1 = g and V/C2 = g^2 at every step. AdamS, without a stored second moment, would not.
    AdamW<T> optimizer = this->make(this->without_decay(), 1, Vector<T>::Zero(2));
    for (Index t = 1; t <= 20; ++t) {
        optimizer.step({vector_of<T>({T(0.3), T(-7)})}, 1.0);
        const double tolerance =
            static_cast<double>(t) * 16 * static_cast<double>(std::numeric_limits<T>::epsilon());
        EXPECT_NEAR(static_cast<double>(optimizer.state.w[0]), -static_cast<double>(t),
                    tolerance * static_cast<double>(t));
        EXPECT_NEAR(static_cast<double>(optimizer.state.w[1]), static_cast<double>(t),
                    tolerance * static_cast<double>(t));
    }
}

TYPED_TEST(AdamwTest, BothMomentsAreStored) {
    using T = TypeParam;
    problem::HyperParameters settings = this->without_decay();
    settings.beta1 = 0.5;
    settings.beta2 = 0.75;
    AdamW<T> optimizer = this->make(settings, 2, Vector<T>::Zero(1));
    optimizer.step({vector_of<T>({6}), vector_of<T>({2})}, 1.0); // mean 4
    EXPECT_EQ(optimizer.state.m[0], T(2));
    EXPECT_EQ(optimizer.state.v[0], T(4));
    optimizer.step({vector_of<T>({-1}), vector_of<T>({-3})}, 1.0); // mean -2
    EXPECT_EQ(optimizer.state.m[0], T(0));
    EXPECT_EQ(optimizer.state.v[0], T(4));
    EXPECT_EQ(optimizer.state.step, 2);
}

TYPED_TEST(AdamwTest, AShortRunIsThatOfStraightLines) {
    using T = TypeParam;
    constexpr int workers = 3;
    constexpr Index size = 37;
    std::mt19937_64 generator(4);
    const Vector<T> start = random_vector<T>(generator, size);
    AdamW<T> optimizer = this->make({}, workers, start);
    std::vector<T> w(start.begin(), start.end());
    std::vector<T> m(w.size(), T(0));
    std::vector<T> v(w.size(), T(0));
    for (Index t = 1; t <= 8; ++t) {
        const double lr = 1e-3 / static_cast<double>(t);
        const PerRank<T> gradients = random_gradients<T>(workers, size, t);
        optimizer.step(gradients, lr);
        const double c1 = 1.0 - power(0.9, t);
        const double c2 = 1.0 - power(0.95, t);
        for (std::size_t i = 0; i < w.size(); ++i) {
            const auto at = static_cast<Index>(i);
            const T g = ((gradients[0][at] + gradients[1][at]) + gradients[2][at]) / T(3);
            m[i] = T(0.9) * m[i] + T(1.0 - 0.9) * g;
            v[i] = T(0.95) * v[i] + T(1.0 - 0.95) * (g * g);
            const T denominator = std::sqrt(v[i]) * T(1.0 / std::sqrt(c2)) + T(1e-8);
            const T u = (m[i] * T(1.0 / c1)) / denominator;
            w[i] = w[i] * T(1.0 - lr * 0.1) - T(lr) * u;
            ASSERT_TRUE(same_bits(optimizer.state.m[at], m[i]));
            ASSERT_TRUE(same_bits(optimizer.state.v[at], v[i]));
            ASSERT_TRUE(same_bits(optimizer.state.w[at], w[i]));
        }
    }
}

TYPED_TEST(AdamwTest, ItsBiasCorrectionIsAdamsWhateverTheProblemSays) {
    using T = TypeParam;
    const PerRank<T> g = random_gradients<T>(2, 9, 1);
    problem::HyperParameters settings;
    AdamW<T> expected = this->make(settings, 2, Vector<T>::Ones(9));
    expected.step(g, 1e-3);
    for (const BiasCorrection correction : all_corrections) {
        settings.bias_correction = correction;
        AdamW<T> optimizer = this->make(settings, 2, Vector<T>::Ones(9));
        optimizer.step(g, 1e-3);
        EXPECT_TRUE(same_bits(optimizer.state.w, expected.state.w));
    }
}

TYPED_TEST(AdamwTest, AZeroGradientFromTheStartOnlyDecays) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.weight_decay = 0.5;
    AdamW<T> optimizer = this->make(settings, 1, vector_of<T>({8, -4, 0, -0.0}));
    optimizer.step({Vector<T>::Zero(4)}, 0.5);
    EXPECT_TRUE(same_bits(optimizer.state.w, vector_of<T>({6, -3, 0, -0.0})));
}

TYPED_TEST(AdamwTest, ARefusedStepChangesNoBit) {
    using T = TypeParam;
    AdamW<T> optimizer = this->make({}, 1, vector_of<T>({1, 2}));
    optimizer.step({vector_of<T>({1, -1})}, 1e-3);
    const auto before = optimizer.state;
    EXPECT_THROW(optimizer.step({vector_of<T>({1, std::numeric_limits<T>::infinity()})}, 1e-3),
                 RefusedStep);
    EXPECT_EQ(optimizer.state.step, before.step);
    EXPECT_TRUE(same_bits(optimizer.state.w, before.w));
    EXPECT_TRUE(same_bits(optimizer.state.m, before.m));
    EXPECT_TRUE(same_bits(optimizer.state.v, before.v));
}

TYPED_TEST(AdamwTest, ANonFiniteStateHaltsUntilAGoodOneIsRestored) {
    using T = TypeParam;
    AdamW<T> optimizer =
        this->make(this->without_decay(), 1, vector_of<T>({std::numeric_limits<T>::max()}));
    const auto good = optimizer.state;
    const PerRank<T> g{vector_of<T>({-1})};
    constexpr auto text = "halted after step 1: the parameter of tensor a, index 0 (coordinate 0) is inf; "
                          "restore a finite state to continue";
    EXPECT_THAT([&] { optimizer.step(g, static_cast<double>(std::numeric_limits<T>::max()) / 2); },
                ThrowsMessage<Halted>(text));
    EXPECT_THAT([&] { optimizer.step(g, 0.0); }, ThrowsMessage<Halted>(text));
    optimizer.state = good;
    EXPECT_NO_THROW(optimizer.step(g, 0.0));
}

TYPED_TEST(AdamwTest, WrongSizesAreRefused) {
    using T = TypeParam;
    AdamW<T> optimizer = this->make({}, 2, Vector<T>::Zero(3));
    EXPECT_THAT(
        [&] { optimizer.step({Vector<T>::Zero(3)}, 1e-3); },
        ThrowsMessage<Error>("gradient: 1 vectors given; the problem has 2 workers, give one each"));
    EXPECT_THAT(
        [&] {
            optimizer.step({Vector<T>::Zero(2), Vector<T>::Zero(3)}, 1e-3);
        },
        ThrowsMessage<Error>("gradient of rank 0: it has 2 values; the model has 3 parameters"));
    EXPECT_EQ(optimizer.state.step, 0);
}

} // namespace
} // namespace truestep::reference::scape
