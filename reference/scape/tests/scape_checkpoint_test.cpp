// Section 7: a state is sufficient to continue a run, with the same number of workers or another.
#include <truestep/reference/scape/scape.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "support.hpp"

namespace truestep::reference::scape {
namespace {

using problem::DensitySchedule;

constexpr Index size = 40;
constexpr double learning_rate = 3e-3;

template <class T>
class ScapeCheckpointTest : public ::testing::Test {
  protected:
    static Scape<T> make(int workers, Vector<T> parameters = small_parameters<T>()) {
        problem::HyperParameters settings;
        settings.clip_norm = 1.0;
        return {small_problem(settings, workers), DensitySchedule::geometric(1.0, 0.2, 3),
                std::move(parameters)};
    }

    static void take(Scape<T>& optimizer, Index first, Index last) {
        const auto workers = static_cast<int>(optimizer.state.e.size());
        for (Index t = first; t <= last; ++t)
            optimizer.step(random_gradients<T>(workers, size, t), learning_rate);
    }

    static ScapeState<T> state_of_residuals(std::initializer_list<T> of_ranks) {
        ScapeState<T> state{3, vector_of<T>({1}), vector_of<T>({0}), Coordinates{0}, {}};
        for (const T residual : of_ranks)
            state.e.push_back(vector_of<T>({residual}));
        return state;
    }
};
TYPED_TEST_SUITE(ScapeCheckpointTest, Scalars);

TYPED_TEST(ScapeCheckpointTest, ContinuingFromAStateEqualsNeverHavingStoppedAtEveryStep) {
    using T = TypeParam;
    constexpr Index last = 8;
    for (const int workers : {1, 2, 3, 5})
        for (Index stop = 0; stop <= last; ++stop) {
            Scape<T> never_stopped = this->make(workers);
            this->take(never_stopped, 1, stop);
            const ScapeState<T> checkpoint = never_stopped.state;
            Scape<T> restored = this->make(workers, Vector<T>::Zero(size));
            ASSERT_FALSE(same_bits(restored.state, checkpoint)); // or restoring proves nothing
            restored.state = checkpoint;
            for (Index t = stop + 1; t <= last; ++t) {
                this->take(never_stopped, t, t);
                this->take(restored, t, t);
                ASSERT_TRUE(same_bits(restored.state, never_stopped.state)) << stop << ", " << t;
            }
        }
}

TYPED_TEST(ScapeCheckpointTest, EachPartOfTheStateMattersToTheContinuation) {
    using T = TypeParam;
    Scape<T> optimizer = this->make(3);
    this->take(optimizer, 1, 4);
    const ScapeState<T> checkpoint = optimizer.state;
    this->take(optimizer, 5, 6);
    const auto continued_without = [&](auto&& drop) {
        Scape<T> copy = this->make(3);
        copy.state = checkpoint;
        drop(copy.state);
        this->take(copy, 5, 6);
        return same_bits(copy.state, optimizer.state);
    };
    EXPECT_TRUE(continued_without([](ScapeState<T>&) {}));
    EXPECT_FALSE(continued_without([](ScapeState<T>& state) { state.w.setZero(); }));
    EXPECT_FALSE(continued_without([](ScapeState<T>& state) { state.m.setZero(); }));
    EXPECT_FALSE(continued_without([](ScapeState<T>& state) { state.S.reset(); }));
    EXPECT_FALSE(continued_without([](ScapeState<T>& state) { state.e[0].setZero(); }));
    EXPECT_FALSE(continued_without([](ScapeState<T>& state) { state.e[2].setZero(); }));
    // The bias correction and the density depend on the step.
    EXPECT_FALSE(continued_without([](ScapeState<T>& state) { state.step = 0; }));
}

TYPED_TEST(ScapeCheckpointTest, TheSameNumberOfWorkersChangesNoBit) {
    using T = TypeParam;
    for (const int workers : {1, 2, 3, 4, 5, 7, 8}) {
        Scape<T> optimizer = this->make(workers);
        this->take(optimizer, 1, 4);
        EXPECT_TRUE(same_bits(redistribute(optimizer.state, workers), optimizer.state));
    }
    const auto with_signs_of_zero = this->state_of_residuals({-T(0), T(0), -T(0)});
    EXPECT_TRUE(same_bits(redistribute(with_signs_of_zero, 3), with_signs_of_zero));
}

TYPED_TEST(ScapeCheckpointTest, EveryNewRankStartsWithTheMeanResidual) {
    using T = TypeParam;
    for (const int workers : {1, 2, 3, 4, 5, 7, 8})
        for (const int new_workers : {1, 2, 3, 4, 5, 7, 8}) {
            if (new_workers == workers)
                continue;
            Scape<T> optimizer = this->make(workers);
            this->take(optimizer, 1, 4);
            const ScapeState<T> state = redistribute(optimizer.state, new_workers);
            ASSERT_EQ(state.e.size(), static_cast<std::size_t>(new_workers));
            for (const Vector<T>& residual : state.e)
                EXPECT_TRUE(same_bits(residual, mean_in_rank_order(optimizer.state.e)));
        }
}

TYPED_TEST(ScapeCheckpointTest, TheMeanResidualIsTheOrderedSumOverTheOldNumberOfWorkers) {
    using T = TypeParam;
    const T tiny = std::numeric_limits<T>::epsilon() / T(2);
    const auto state = this->state_of_residuals({T(1), tiny, tiny});
    for (const int new_workers : {1, 2, 4, 5})
        for (const Vector<T>& residual : redistribute(state, new_workers).e)
            EXPECT_TRUE(same_bits(residual[0], T(1) / T(3)));
}

TYPED_TEST(ScapeCheckpointTest, TheMeanResidualIsConservedExactlyWhereItsBitsAreFew) {
    using T = TypeParam;
    const auto state = this->state_of_residuals({T(3), T(-7), T(10), T(2)}); // sum 8, mean 2
    for (const int new_workers : {1, 2, 3, 5, 7, 8}) {
        T sum = 0;
        for (const Vector<T>& residual : redistribute(state, new_workers).e)
            sum += residual[0];
        EXPECT_EQ(sum / static_cast<T>(new_workers), T(2));
    }
}

TYPED_TEST(ScapeCheckpointTest, StepParametersMomentAndMaskAreKept) {
    using T = TypeParam;
    Scape<T> optimizer = this->make(3);
    this->take(optimizer, 1, 4);
    for (const int new_workers : {1, 2, 5}) {
        const ScapeState<T> state = redistribute(optimizer.state, new_workers);
        EXPECT_EQ(state.step, 4);
        EXPECT_TRUE(same_bits(state.w, optimizer.state.w));
        EXPECT_TRUE(same_bits(state.m, optimizer.state.m));
        EXPECT_EQ(state.S, optimizer.state.S);
    }
}

TYPED_TEST(ScapeCheckpointTest, AStateFromBeforeTheFirstStepCanBeRedistributedToo) {
    using T = TypeParam;
    Scape<T> grown = this->make(5, Vector<T>::Zero(size));
    grown.state = redistribute(this->make(3).state, 5);
    Scape<T> fresh = this->make(5);
    this->take(grown, 1, 3);
    this->take(fresh, 1, 3);
    EXPECT_TRUE(same_bits(grown.state, fresh.state));
}

TYPED_TEST(ScapeCheckpointTest, ARunGoesOnWithFewerAndWithMoreWorkers) {
    using T = TypeParam;
    for (const int new_workers : {1, 2, 5}) {
        Scape<T> optimizer = this->make(3);
        this->take(optimizer, 1, 4);
        Scape<T> moved = this->make(new_workers, Vector<T>::Zero(size));
        moved.state = redistribute(optimizer.state, new_workers);
        const Coordinates mask = *moved.state.S;
        const auto made = moved.step(random_gradients<T>(new_workers, size, 5), learning_rate);
        EXPECT_EQ(made.S, mask);
        EXPECT_EQ(moved.state.step, 5);
        this->take(moved, 6, 8);
    }
}

} // namespace
} // namespace truestep::reference::scape
