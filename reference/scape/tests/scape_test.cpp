// Points 2 to 6 of section 4, in its order. Point 1 is in scape_refusal_test.cpp, 7 and 8 are in
// scape_update_test.cpp, section 7 in scape_checkpoint_test.cpp.
#include <truestep/reference/scape/scape.hpp>

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scape_support.hpp"

namespace truestep::reference::scape {
namespace {

using problem::DensitySchedule;
using ::testing::ElementsAre;

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
    // c = (4, 1/2): coordinate 0 is sent and cleared, but is still the largest.
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
} // namespace truestep::reference::scape
