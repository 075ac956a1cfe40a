// Points 2 to 8 of section 4, in its order. Point 1 is in scape_refusal_test.cpp, section 7 in
// scape_checkpoint_test.cpp.
#include <scape/reference/scape.hpp>

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.hpp"

namespace scape::reference {
namespace {

using problem::BiasCorrection;
using problem::DecayOrder;
using problem::DensitySchedule;
using ::testing::ElementsAre;

constexpr int workers = 3;
constexpr Index size = 40;
constexpr double learning_rate = 3e-3;
constexpr Index steps = 6;

DensitySchedule falling() {
    return DensitySchedule::geometric(1.0, 0.2, 3);
}

template <class T>
class ScapeTest : public ::testing::Test {
  protected:
    static Scape<T> make(const problem::HyperParameters& settings = {},
                         const DensitySchedule& density = falling()) {
        return {small_problem(settings), density, small_parameters<T>()};
    }

    /// Two coordinates in one segment of rank 0, k = 1, under settings that make most results exact.
    static Scape<T> make_pair(int ranks, Vector<T> parameters = Vector<T>::Zero(2)) {
        auto problem =
            problem::make_problem(problem::Algorithm::scape, ranks, problem::Layout({{"pair", 2}}),
                                  problem::PartitionRule::by_tensor, dyadic());
        problem.segments[0].owner = 0;
        return {std::move(problem), DensitySchedule::constant(0.5), std::move(parameters)};
    }

    static problem::HyperParameters dyadic() {
        problem::HyperParameters settings;
        settings.beta1 = 0.5;
        settings.beta2 = 0.75;
        settings.weight_decay = 0.0;
        settings.bias_correction = BiasCorrection::none;
        return settings;
    }

    /// What lies before a step, what goes into it and what comes out.
    struct Taken {
        Index t;
        ScapeState<T> before;
        PerRank<T> g;
        ScapeStep<T> made;
        ScapeState<T> after;
    };

    static std::vector<Taken> run(Scape<T> optimizer) {
        std::vector<Taken> taken;
        for (Index t = 1; t <= steps; ++t) {
            const ScapeState<T> before = optimizer.state;
            PerRank<T> g = random_gradients<T>(static_cast<int>(before.e.size()), before.w.size(), t);
            ScapeStep<T> made = optimizer.step(g, learning_rate);
            taken.push_back({t, before, std::move(g), std::move(made), optimizer.state});
        }
        return taken;
    }
};
TYPED_TEST_SUITE(ScapeTest, Scalars);

TYPED_TEST(ScapeTest, StartsWithoutMomentResidualAndMask) {
    using T = TypeParam;
    const Scape<T> optimizer = this->make();
    EXPECT_EQ(optimizer.state.step, 0);
    EXPECT_TRUE(same_bits(optimizer.state.w, small_parameters<T>()));
    EXPECT_TRUE(same_bits<T>(optimizer.state.m, Vector<T>::Zero(size)));
    EXPECT_TRUE(same_bits(optimizer.state.e, PerRank<T>(workers, Vector<T>::Zero(size))));
    EXPECT_FALSE(optimizer.state.S.has_value());
}

TYPED_TEST(ScapeTest, TheStepIsCounted) {
    for (const auto& taken : this->run(this->make()))
        EXPECT_EQ(taken.after.step, taken.t);
}

TYPED_TEST(ScapeTest, Point2TheLocalVectorIsMomentPlusGradientPlusResidual) {
    using T = TypeParam;
    const T b1 = T(0.9);
    const T a1 = T(1.0 - 0.9);
    for (const auto& [t, before, g, made, after] : this->run(this->make()))
        for (std::size_t r = 0; r < workers; ++r)
            for (Index i = 0; i < size; ++i)
                ASSERT_TRUE(
                    same_bits(made.c[r][i], ((b1 * before.m[i]) + (a1 * g[r][i])) + before.e[r][i]));
}

TYPED_TEST(ScapeTest, Point3TheNextMaskIsMadeByTheOwnersFromTheirOwnLocalVectors) {
    for (const auto& taken : this->run(this->make()))
        EXPECT_EQ(taken.made.next, select_mask(taken.made.c, small_problem(), falling().at(taken.t + 1)));
}

TYPED_TEST(ScapeTest, Point3AMaskIsUsedOneStepAfterItWasMade) {
    const auto taken = this->run(this->make());
    for (std::size_t step = 0; step + 1 < taken.size(); ++step) {
        EXPECT_EQ(taken[step].after.S, taken[step].made.next);
        EXPECT_EQ(taken[step + 1].made.S, taken[step].made.next);
        EXPECT_NE(taken[step + 1].made.S, taken[step + 1].made.next);
    }
}

TYPED_TEST(ScapeTest, Point3TheDelayedMaskDoesNotDependOnTheNextGradient) {
    using T = TypeParam;
    Scape<T> optimizer = this->make({}, DensitySchedule::constant(0.2));
    optimizer.step(random_gradients<T>(workers, size, 1), learning_rate);
    for (const Index other : {2, 17, 23}) {
        Scape<T> copy = optimizer;
        const auto made = copy.step(random_gradients<T>(workers, size, other), learning_rate);
        EXPECT_EQ(made.S, *optimizer.state.S);
    }
}

TYPED_TEST(ScapeTest, Point3TheScoreIsTakenBeforeTheResidualIsCleared) {
    using T = TypeParam;
    Scape<T> optimizer = this->make_pair(1);
    // c = (4, 1/2): coordinate 0 is sent and cleared, and is the largest all the same.
    EXPECT_THAT(optimizer.step({vector_of<T>({8, 1})}, 1.0).next, ElementsAre(0));
}

TYPED_TEST(ScapeTest, Point3TheScoreHoldsTheResidual) {
    using T = TypeParam;
    Scape<T> optimizer = this->make_pair(1);
    // Coordinate 1 gathers 1/2 in each step, coordinate 0 stays near 1.
    std::vector<Index> chosen;
    for (int step = 0; step < 4; ++step)
        chosen.push_back(optimizer.step({vector_of<T>({2, 1})}, 1.0).next.front());
    EXPECT_THAT(chosen, ElementsAre(0, 0, 0, 1)); // c: (1, 1/2), (3/2, 1), (7/4, 3/2), (15/8, 2)
}

TYPED_TEST(ScapeTest, Point3TheScoreIsTheOwnersAndNotTheMeans) {
    using T = TypeParam;
    problem::Problem problem =
        problem::make_problem(problem::Algorithm::scape, 3, problem::Layout({{"pair", 2}}),
                              problem::PartitionRule::by_tensor, {});
    const PerRank<T> g{vector_of<T>({1, 100}), vector_of<T>({2, 1}), vector_of<T>({1, 100})};
    for (const auto& [owner, choice] : {std::pair{0, Index{1}}, {1, Index{0}}, {2, Index{1}}}) {
        problem.segments[0].owner = owner;
        Scape<T> optimizer(problem, DensitySchedule::constant(0.5), Vector<T>::Zero(2));
        EXPECT_THAT(optimizer.step(g, 1.0).next, ElementsAre(choice));
    }
}

TYPED_TEST(ScapeTest, Point3AnAlwaysDenseTensorIsInEveryMask) {
    for (const auto& taken : this->run(this->make({}, DensitySchedule::constant(0.01))))
        for (const Index i : {21, 22, 23}) {
            EXPECT_TRUE(std::binary_search(taken.made.S.begin(), taken.made.S.end(), i));
            EXPECT_TRUE(std::binary_search(taken.made.next.begin(), taken.made.next.end(), i));
        }
}

TYPED_TEST(ScapeTest, Point3TheFirstMaskIsFullAtDensityOne) {
    using T = TypeParam;
    Scape<T> optimizer = this->make({}, DensitySchedule::recorded({1.0, 0.2}));
    const auto made = optimizer.step(random_gradients<T>(workers, size, 1), learning_rate);
    EXPECT_EQ(made.S, all_coordinates(size));
    EXPECT_EQ(made.next, select_mask(made.c, small_problem(), 0.2));
}

TYPED_TEST(ScapeTest, Point3TheFirstMaskBelowDensityOneIsMadeFromTheFirstLocalVectorsAtOnce) {
    using T = TypeParam;
    Scape<T> optimizer = this->make({}, DensitySchedule::recorded({0.4, 0.2}));
    const auto made = optimizer.step(random_gradients<T>(workers, size, 1), learning_rate);
    EXPECT_EQ(made.S, select_mask(made.c, small_problem(), 0.4));
    EXPECT_EQ(made.next, select_mask(made.c, small_problem(), 0.2));
    EXPECT_LT(made.next.size(), made.S.size());
}

TYPED_TEST(ScapeTest, Point4TheMomentIsTheMeanOfAllRanksOnTheMask) {
    using T = TypeParam;
    for (const auto& [t, before, g, made, after] : this->run(this->make())) {
        ASSERT_EQ(made.exchanged.size(), static_cast<Index>(made.S.size()));
        for (std::size_t place = 0; place < made.S.size(); ++place) {
            const Index i = made.S[place];
            const T mean = ((made.c[0][i] + made.c[1][i]) + made.c[2][i]) / T(3);
            ASSERT_TRUE(same_bits(made.exchanged[static_cast<Index>(place)], mean));
        }
    }
}

TYPED_TEST(ScapeTest, Point4TheMomentIsPlusZeroOffTheMask) {
    using T = TypeParam;
    for (const auto& [t, before, g, made, after] : this->run(this->make())) {
        EXPECT_TRUE(same_bits<T>(after.m(made.S), made.M));
        for (const Index i : complement(made.S, size))
            EXPECT_TRUE(same_bits(after.m[i], T(0)));
    }
}

TYPED_TEST(ScapeTest, Point4ARankThatOwnsNothingCountsInTheMean) {
    using T = TypeParam;
    Scape<T> optimizer = this->make_pair(4);
    const auto made = optimizer.step(
        {vector_of<T>({8, 0}), vector_of<T>({16, 0}), vector_of<T>({0, 0}), vector_of<T>({-40, 0})}, 1.0);
    EXPECT_TRUE(same_bits(made.exchanged, vector_of<T>({-2})));
}

TYPED_TEST(ScapeTest, Point5TheMeanGradientIsReconstructedFromTheMoments) {
    using T = TypeParam;
    const T b1 = T(0.9);
    const T a1 = T(1.0 - 0.9);
    for (const auto& [t, before, g, made, after] : this->run(this->make())) {
        ASSERT_EQ(made.ghat.size(), made.exchanged.size());
        for (std::size_t place = 0; place < made.S.size(); ++place) {
            const auto p = static_cast<Index>(place);
            const T ghat = (made.exchanged[p] - (b1 * before.m[made.S[place]])) / a1;
            ASSERT_TRUE(same_bits(made.ghat[p], ghat));
        }
    }
}

TYPED_TEST(ScapeTest, Point6TheResidualIsPlusZeroOnTheMaskAndTheLocalVectorOffIt) {
    using T = TypeParam;
    for (const auto& [t, before, g, made, after] : this->run(this->make()))
        for (std::size_t r = 0; r < workers; ++r) {
            for (const Index i : made.S)
                EXPECT_TRUE(same_bits(after.e[r][i], T(0)));
            for (const Index i : complement(made.S, size))
                EXPECT_TRUE(same_bits(after.e[r][i], made.c[r][i]));
        }
}

TYPED_TEST(ScapeTest, Point6WhatAnUnselectedCoordinateHadInTheMomentMovesIntoEveryResidual) {
    using T = TypeParam;
    Scape<T> optimizer = this->make_pair(2);
    // S_1 = S_2 = {0}: m goes from 3 to 3/2. Rank 0's c of step 2 is (3/2, 3), so S_3 = {1}.
    optimizer.step({vector_of<T>({8, 2}), vector_of<T>({4, 2})}, 1.0);
    EXPECT_TRUE(same_bits(optimizer.state.m, vector_of<T>({3, 0})));
    optimizer.step({vector_of<T>({0, 4}), vector_of<T>({0, 0})}, 1.0);
    EXPECT_TRUE(same_bits(optimizer.state.m, vector_of<T>({1.5, 0})));
    optimizer.step({Vector<T>::Zero(2), Vector<T>::Zero(2)}, 1.0);
    EXPECT_TRUE(same_bits(optimizer.state.m, vector_of<T>({0, 2})));
    EXPECT_TRUE(same_bits(optimizer.state.e[0], vector_of<T>({0.75, 0})));
    EXPECT_TRUE(same_bits(optimizer.state.e[1], vector_of<T>({0.75, 0})));
}

TYPED_TEST(ScapeTest, Point6TheResidualDoesNotDecay) {
    using T = TypeParam;
    Scape<T> optimizer = this->make_pair(1);
    const PerRank<T> nothing{Vector<T>::Zero(2)};
    optimizer.step({vector_of<T>({64, 2})}, 1.0);
    for (int step = 0; step < 3; ++step) {
        optimizer.step(nothing, 1.0);
        EXPECT_TRUE(same_bits(optimizer.state.e[0], vector_of<T>({0, 1})));
    }
}

template <class T>
T plain_clip_factor(const Vector<T>& ghat, double clip_norm) {
    return T(std::min(clip_norm / (norm_in_blocks<double>(ghat) + 1e-6), 1.0));
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

/// One step of two ranks with beta1 = 0 and the mean gradient (3, 4, 0), all of it sent.
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

TYPED_TEST(ScapeTest, SubnormalsAreKept) {
    using T = TypeParam;
    constexpr T least = std::numeric_limits<T>::denorm_min();
    Scape<T> optimizer = this->make_pair(1);
    optimizer.step({vector_of<T>({16 * least, -6 * least})}, 1.0);
    EXPECT_TRUE(same_bits(optimizer.state.m, vector_of<T>({8 * least, 0})));
    EXPECT_TRUE(same_bits(optimizer.state.e[0], vector_of<T>({0, -3 * least})));
    const auto made = optimizer.step({vector_of<T>({0, -20 * least})}, 1.0);
    EXPECT_TRUE(same_bits(made.ghat, vector_of<T>({0})));
    EXPECT_THAT(made.next, ElementsAre(1));
    EXPECT_TRUE(same_bits(optimizer.state.e[0], vector_of<T>({0, -13 * least})));
}

TYPED_TEST(ScapeTest, BetasOfZeroMakeTheMomentTheMeanGradientAndTheResidual) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.beta1 = settings.beta2 = 0.0;
    for (const auto& [t, before, g, made, after] : this->run(this->make(settings)))
        for (std::size_t place = 0; place < made.S.size(); ++place) {
            const Index i = made.S[place];
            const T mean =
                (((g[0][i] + before.e[0][i]) + (g[1][i] + before.e[1][i])) + (g[2][i] + before.e[2][i])) /
                T(3);
            ASSERT_TRUE(same_bits(made.M[static_cast<Index>(place)], mean));
            ASSERT_TRUE(same_bits(made.ghat[static_cast<Index>(place)], mean));
        }
}

TYPED_TEST(ScapeTest, ThereMayBeMoreRanksThanParameters) {
    using T = TypeParam;
    const auto problem = problem::make_problem(problem::Algorithm::scape, 5, problem::Layout({{"a", 2}}),
                                               problem::PartitionRule::by_shard, this->dyadic());
    Scape<T> optimizer(problem, DensitySchedule::constant(0.01), Vector<T>::Zero(2));
    const auto made = optimizer.step(PerRank<T>(5, vector_of<T>({2, -4})), 1.0);
    EXPECT_THAT(made.S, ElementsAre(0, 1)); // one of each segment
    EXPECT_TRUE(same_bits(made.M, vector_of<T>({1, -2})));
}

TYPED_TEST(ScapeTest, TheSameRunTwiceGivesTheSameBits) {
    const auto first = this->run(this->make());
    const auto second = this->run(this->make());
    for (std::size_t step = 0; step < first.size(); ++step)
        EXPECT_TRUE(same_bits(first[step].after, second[step].after));
}

} // namespace
} // namespace scape::reference
