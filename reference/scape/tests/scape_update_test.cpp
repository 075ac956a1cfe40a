// Points 7 and 8 of section 4: clipping, and the update.
#include <truestep/reference/scape/scape.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scape_support.hpp"

namespace truestep::reference::scape {
namespace {

using problem::BiasCorrection;
using problem::DecayOrder;
using problem::DensitySchedule;
using ::testing::ElementsAre;

template <class T>
T plain_clip_factor(const Vector<T>& ghat, double clip_norm) {
    return T(std::min(clip_norm / (norm_in_blocks<double>(ghat, problem::NormVersion::tree) + 1e-6), 1.0));
}

TYPED_TEST(ScapeTest, Point7TheClippedMomentIsMadeFromTheClippedGradient) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.clip_norm = 0.5;
    const T b1 = T(0.9);
    const T a1 = T(1.0 - 0.9);
    for (const auto& [t, before, g, made, after] : this->run(this->make(settings))) {
        const T s = plain_clip_factor(made.ghat, settings.clip_norm);
        ASSERT_LT(s, T(1));
        for (std::size_t place = 0; place < made.S.size(); ++place) {
            const auto p = static_cast<Index>(place);
            const T clipped = made.ghat[p] * s;
            ASSERT_TRUE(same_bits(made.M[p], (b1 * before.m[made.S[place]]) + (a1 * clipped)));
        }
    }
}

TYPED_TEST(ScapeTest, Point7TheMomentIsMadeAnewAlsoWhenNothingIsClipped) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.clip_norm = 1e6;
    const T b1 = T(0.9);
    const T a1 = T(1.0 - 0.9);
    Index differs_from_what_was_exchanged = 0;
    for (const auto& [t, before, g, made, after] : this->run(this->make(settings))) {
        ASSERT_EQ(plain_clip_factor(made.ghat, settings.clip_norm), T(1));
        for (std::size_t place = 0; place < made.S.size(); ++place) {
            const auto p = static_cast<Index>(place);
            ASSERT_TRUE(same_bits(made.M[p], (b1 * before.m[made.S[place]]) + (a1 * made.ghat[p])));
            differs_from_what_was_exchanged += made.M[p] != made.exchanged[p] ? 1 : 0;
        }
    }
    EXPECT_GT(differs_from_what_was_exchanged, 0);
}

TYPED_TEST(ScapeTest, Point7WithoutClippingTheMomentIsWhatWasExchanged) {
    for (const auto& taken : this->run(this->make()))
        EXPECT_TRUE(same_bits(taken.made.M, taken.made.exchanged));
}

/// Takes one step of two ranks with beta1 = 0 and the mean gradient (3, 4, 0), which is sent as a
/// whole.
template <class T>
ScapeStep<T> clipped_three_and_four(double clip_norm) {
    problem::HyperParameters settings;
    settings.beta1 = 0.0;
    settings.clip_norm = clip_norm;
    Scape<T> optimizer(problem::make_problem(problem::Algorithm::scape, 2, problem::Layout({{"a", 3}}),
                                             problem::PartitionRule::by_shard, settings),
                       DensitySchedule::constant(1.0), Vector<T>::Zero(3));
    return optimizer.step({vector_of<T>({4, 2, 100}), vector_of<T>({2, 6, -100})}, learning_rate);
}

TYPED_TEST(ScapeTest, Point7TheFactorIsTheClipNormOverTheNormOfTheMeanGradient) {
    using T = TypeParam;
    const T s = T(1.0 / (5.0 + 1e-6));
    const auto made = clipped_three_and_four<T>(1.0);
    EXPECT_TRUE(same_bits(made.ghat, vector_of<T>({3, 4, 0}))); // before clipping
    EXPECT_TRUE(same_bits(made.M, vector_of<T>({T(3) * s, T(4) * s, 0})));
}

TYPED_TEST(ScapeTest, Point7ANormEqualToTheClipNormIsClippedByTheSmallTermBelowIt) {
    using T = TypeParam;
    const T s = T(5.0 / (5.0 + 1e-6));
    ASSERT_LT(s, T(1));
    EXPECT_TRUE(same_bits(clipped_three_and_four<T>(5.0).M, vector_of<T>({T(3) * s, T(4) * s, 0})));
}

TYPED_TEST(ScapeTest, Point7TheFactorIsNeverMoreThanOne) {
    using T = TypeParam;
    EXPECT_TRUE(same_bits(clipped_three_and_four<T>(5.1).M, vector_of<T>({3, 4, 0})));
}

TYPED_TEST(ScapeTest, Point7ANormOfZeroClipsNothing) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.clip_norm = 1.0;
    Scape<T> optimizer = this->make(settings);
    const auto made = optimizer.step(PerRank<T>(workers, Vector<T>::Zero(size)), learning_rate);
    EXPECT_TRUE(same_bits<T>(made.M, Vector<T>::Zero(size)));
}

TYPED_TEST(ScapeTest, Point7TheNormIsTakenOnTheMaskOnly) {
    using T = TypeParam;
    problem::HyperParameters settings = this->dyadic();
    settings.clip_norm = 8.0;
    Scape<T> optimizer(problem::make_problem(problem::Algorithm::scape, 1, problem::Layout({{"pair", 2}}),
                                             problem::PartitionRule::by_tensor, settings),
                       DensitySchedule::constant(0.5), Vector<T>::Zero(2));
    optimizer.step({vector_of<T>({4, 1})}, learning_rate);
    const auto made = optimizer.step({vector_of<T>({4, 1000})}, learning_rate);
    EXPECT_THAT(made.S, ElementsAre(0));
    EXPECT_TRUE(same_bits(made.M, made.exchanged));
}

TYPED_TEST(ScapeTest, Point7ClippingDoesNotTouchTheResidual) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.clip_norm = 0.01;
    Scape<T> clipping = this->make(settings, DensitySchedule::constant(0.3));
    Scape<T> plain = this->make({}, DensitySchedule::constant(0.3));
    for (Index t = 1; t <= steps; ++t) {
        clipping.state = plain.state;
        const PerRank<T> g = random_gradients<T>(workers, size, t);
        clipping.step(g, learning_rate);
        plain.step(g, learning_rate);
        EXPECT_TRUE(same_bits(clipping.state.e, plain.state.e));
        EXPECT_FALSE(same_bits(clipping.state.m, plain.state.m));
    }
}

/// Section 5 for one coordinate on the mask.
template <class T>
T updated(const problem::HyperParameters& settings, Index t, T w, T m, T M, T ghat) {
    const T b2 = T(settings.beta2);
    const T a2 = T(1.0 - settings.beta2);
    const T eps = T(settings.epsilon);
    const T inv1 = T(1.0 / (1.0 - power(settings.beta1, t)));
    const T invs2 = T(1.0 / std::sqrt(1.0 - power(settings.beta2, t)));
    T u;
    if (settings.bias_correction == BiasCorrection::none) {
        u = M / (std::sqrt((b2 * (m * m)) + (a2 * (ghat * ghat))) + eps);
    } else if (settings.bias_correction == BiasCorrection::adam) {
        const T v = (b2 * (m * m)) + (a2 * (ghat * ghat));
        u = (M * inv1) / ((std::sqrt(v) * invs2) + eps);
    } else {
        const T q = m * inv1;
        u = (M * inv1) / (std::sqrt((b2 * (q * q)) + (a2 * (ghat * ghat))) + eps);
    }
    if (settings.decay_order == DecayOrder::first)
        return (w * T(1.0 - learning_rate * settings.weight_decay)) - (T(learning_rate) * u);
    return w - (T(learning_rate) * (u + (T(settings.weight_decay) * w)));
}

TYPED_TEST(ScapeTest, Point8TheUpdateOnTheMaskIsThatOfSectionFive) {
    using T = TypeParam;
    for (const BiasCorrection correction : all_corrections)
        for (const DecayOrder order : {DecayOrder::first, DecayOrder::together})
            for (const double clip_norm : {0.0, 0.5}) {
                problem::HyperParameters settings;
                settings.bias_correction = correction;
                settings.decay_order = order;
                settings.clip_norm = clip_norm;
                for (const auto& [t, before, g, made, after] : this->run(this->make(settings))) {
                    const T s = clip_norm > 0.0 ? plain_clip_factor(made.ghat, clip_norm) : T(1);
                    for (std::size_t place = 0; place < made.S.size(); ++place) {
                        const Index i = made.S[place];
                        const auto p = static_cast<Index>(place);
                        ASSERT_TRUE(same_bits(after.w[i], updated<T>(settings, t, before.w[i], before.m[i],
                                                                     made.M[p], made.ghat[p] * s)));
                    }
                }
            }
}

TYPED_TEST(ScapeTest, Point8OffTheMaskThereIsOnlyTheDecay) {
    using T = TypeParam;
    problem::HyperParameters settings;
    for (const auto& [t, before, g, made, after] : this->run(this->make(settings)))
        for (const Index i : complement(made.S, size))
            ASSERT_TRUE(same_bits<T>(after.w[i], before.w[i] * T(1.0 - learning_rate * 0.1)));
    settings.decay_order = DecayOrder::together;
    for (const auto& [t, before, g, made, after] : this->run(this->make(settings)))
        for (const Index i : complement(made.S, size))
            ASSERT_TRUE(
                same_bits<T>(after.w[i], before.w[i] - (T(learning_rate) * (T(0.1) * before.w[i]))));
}

TYPED_TEST(ScapeTest, Point8TheDecayComesFirst) {
    using T = TypeParam;
    // Density 1, one rank: u = 1, decay 1/2: 8/2 - 1, where a decay after the update would give (8 - 1)/2.
    problem::HyperParameters settings = this->dyadic();
    settings.weight_decay = 0.5;
    settings.epsilon = 0x1p-100;
    Scape<T> optimizer(problem::make_problem(problem::Algorithm::scape, 1, problem::Layout({{"a", 1}}),
                                             problem::PartitionRule::by_shard, settings),
                       DensitySchedule::constant(1.0), vector_of<T>({8}));
    optimizer.step({vector_of<T>({2})}, 1.0);
    EXPECT_EQ(optimizer.state.w[0], T(3));
}

TYPED_TEST(ScapeTest, Point8TheSignOfZeroIsKeptWhereOnlyTheDecayActs) {
    using T = TypeParam;
    Scape<T> optimizer = this->make_pair(1, vector_of<T>({-0.0, -0.0}));
    optimizer.step({vector_of<T>({0, 0})}, 1.0);
    EXPECT_TRUE(same_bits(optimizer.state.w, vector_of<T>({-0.0, -0.0})));
}

} // namespace
} // namespace truestep::reference::scape
