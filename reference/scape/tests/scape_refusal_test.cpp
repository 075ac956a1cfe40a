// Point 1 of section 4: what is refused, what halts, and that neither changes what it must not.
#include <truestep/reference/scape/scape.hpp>

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

#include "support.hpp"

namespace truestep::reference::scape {
namespace {

using problem::DensitySchedule;
using ::testing::ThrowsMessage;

constexpr int workers = 3;
constexpr Index size = 40;
constexpr double learning_rate = 3e-3;

template <class T>
class ScapeRefusalTest : public ::testing::Test {
  protected:
    static Scape<T> make() {
        return {small_problem(), DensitySchedule::geometric(1.0, 0.2, 3), small_parameters<T>()};
    }

    static PerRank<T> good(Index step) { return random_gradients<T>(workers, size, step); }

    static PerRank<T> bad(Index step, std::size_t rank, Index index, T value) {
        PerRank<T> g = good(step);
        g[rank][index] = value;
        return g;
    }

    static constexpr T infinity = std::numeric_limits<T>::infinity();
    static constexpr T nan = std::numeric_limits<T>::quiet_NaN();
    static constexpr T greatest = T(0x1p56);
};
TYPED_TEST_SUITE(ScapeRefusalTest, Scalars);

TYPED_TEST(ScapeRefusalTest, ARefusedStepChangesNoBitOnAnyRankAtAnyStep) {
    using T = TypeParam;
    Scape<T> optimizer = this->make();
    Scape<T> undisturbed = this->make();
    const T above = std::nextafter(this->greatest, this->infinity);
    for (Index t = 1; t <= 4; ++t) {
        for (std::size_t rank = 0; rank < workers; ++rank)
            for (const Index index : {Index{0}, Index{21}, size - 1})
                for (const T value : {this->nan, -this->nan, this->infinity, -this->infinity, above, -above,
                                      std::numeric_limits<T>::max()}) {
                    const ScapeState<T> before = optimizer.state;
                    EXPECT_THROW(optimizer.step(this->bad(t, rank, index, value), learning_rate),
                                 RefusedStep);
                    EXPECT_TRUE(same_bits(optimizer.state, before));
                }
        optimizer.step(this->good(t), learning_rate);
        undisturbed.step(this->good(t), learning_rate);
        EXPECT_TRUE(same_bits(optimizer.state, undisturbed.state));
    }
}

TYPED_TEST(ScapeRefusalTest, TheErrorNamesRankTensorIndexAndValue) {
    using T = TypeParam;
    Scape<T> optimizer = this->make();
    EXPECT_THAT(
        [&] { optimizer.step(this->bad(1, 2, 22, this->nan), learning_rate); },
        ThrowsMessage<RefusedStep>(
            "step refused on all ranks: the gradient of rank 2, tensor norm, index 1 (coordinate 22), is "
            "nan; it must be finite and at most 2^56 in magnitude"));
    EXPECT_THAT(
        [&] { optimizer.step(this->bad(1, 0, 39, -this->infinity), learning_rate); },
        ThrowsMessage<RefusedStep>(
            "step refused on all ranks: the gradient of rank 0, tensor head, index 15 (coordinate 39), is "
            "-inf; it must be finite and at most 2^56 in magnitude"));
    EXPECT_THAT(
        [&] { optimizer.step(this->bad(1, 1, 0, T(1e20)), learning_rate); },
        ThrowsMessage<RefusedStep>(
            "step refused on all ranks: the gradient of rank 1, tensor embedding, index 0 (coordinate 0), "
            "is " +
            shortest(static_cast<double>(T(1e20))) + "; it must be finite and at most 2^56 in magnitude"));
}

TYPED_TEST(ScapeRefusalTest, TheErrorHoldsRankIndexAndValueForPrograms) {
    using T = TypeParam;
    Scape<T> optimizer = this->make();
    try {
        optimizer.step(this->bad(1, 2, 22, -this->infinity), learning_rate);
        FAIL() << "the step was taken";
    } catch (const RefusedStep& refused) {
        EXPECT_EQ(refused.rank, 2);
        EXPECT_EQ(refused.index, 22);
        EXPECT_EQ(refused.value, -std::numeric_limits<double>::infinity());
    }
}

TYPED_TEST(ScapeRefusalTest, TheFirstByRankAndThenByIndexIsNamed) {
    using T = TypeParam;
    Scape<T> optimizer = this->make();
    PerRank<T> g = this->good(1);
    g[2][0] = g[1][30] = g[1][7] = this->infinity;
    try {
        optimizer.step(g, learning_rate);
        FAIL() << "the step was taken";
    } catch (const RefusedStep& refused) {
        EXPECT_EQ(refused.rank, 1);
        EXPECT_EQ(refused.index, 7);
    }
}

TYPED_TEST(ScapeRefusalTest, TwoToTheFiftySixIsAcceptedAndTheNextAboveIsNot) {
    using T = TypeParam;
    for (const T sign : {T(1), T(-1)}) {
        Scape<T> optimizer = this->make();
        EXPECT_THROW(
            optimizer.step(this->bad(1, 1, 5, sign * std::nextafter(this->greatest, this->infinity)),
                           learning_rate),
            RefusedStep);
        EXPECT_NO_THROW(optimizer.step(this->bad(1, 1, 5, sign * this->greatest), learning_rate));
        EXPECT_EQ(optimizer.state.step, 1);
    }
}

TYPED_TEST(ScapeRefusalTest, TheGreatestGradientsEverywhereForManyStepsStayFinite) {
    using T = TypeParam;
    Scape<T> optimizer = this->make();
    const PerRank<T> g(workers, Vector<T>::Constant(size, this->greatest));
    for (int step = 0; step < 100; ++step)
        EXPECT_NO_THROW(optimizer.step(g, learning_rate));
}

TYPED_TEST(ScapeRefusalTest, AMomentThatOverflowsHalts) {
    using T = TypeParam;
    Scape<T> optimizer = this->make();
    optimizer.step(this->good(1), learning_rate);
    const Index i = optimizer.state.S->back();
    // No accepted gradients could have built up these residuals, whose sum overflows T.
    optimizer.state.e[0][i] = optimizer.state.e[1][i] = std::numeric_limits<T>::max();
    EXPECT_THAT([&] { optimizer.step(this->good(2), learning_rate); },
                ThrowsMessage<Halted>("halted after step 2: the first moment of " +
                                      small_problem().layout.describe(i) +
                                      " is inf; restore a finite state to continue"));
}

TYPED_TEST(ScapeRefusalTest, AfterAHaltNoStepIsTakenUntilAStateIsRestored) {
    using T = TypeParam;
    constexpr T most = std::numeric_limits<T>::max();
    Scape<T> optimizer = this->make();
    Scape<T> undisturbed = this->make();
    optimizer.step(this->good(1), learning_rate);
    undisturbed.step(this->good(1), learning_rate);
    const ScapeState<T> checkpoint = optimizer.state;
    optimizer.state.w[39] = most;
    const auto far_too_much = static_cast<double>(most); // w*decay overflows T
    constexpr auto text = "halted after step 2: the parameter of tensor ";
    EXPECT_THAT([&] { optimizer.step(this->good(2), far_too_much); },
                ThrowsMessage<Halted>(::testing::StartsWith(text)));
    const ScapeState<T> lost = optimizer.state;
    for (int attempt = 0; attempt < 3; ++attempt) {
        EXPECT_THAT([&] { optimizer.step(this->good(3), learning_rate); },
                    ThrowsMessage<Halted>(::testing::StartsWith(text)));
        EXPECT_TRUE(same_bits(optimizer.state, lost));
    }
    // A halted optimizer does not even examine a gradient that it would refuse.
    EXPECT_THROW(optimizer.step(this->bad(3, 0, 0, this->nan), learning_rate), Halted);

    optimizer.state = checkpoint;
    optimizer.step(this->good(2), learning_rate);
    undisturbed.step(this->good(2), learning_rate);
    EXPECT_TRUE(same_bits(optimizer.state, undisturbed.state));
}

TYPED_TEST(ScapeRefusalTest, GradientsOfAnotherNumberOrSizeChangeNothing) {
    using T = TypeParam;
    Scape<T> optimizer = this->make();
    optimizer.step(this->good(1), learning_rate);
    const ScapeState<T> before = optimizer.state;
    PerRank<T> too_many = this->good(2);
    too_many.push_back(too_many.back());
    EXPECT_THAT(
        [&] { optimizer.step(too_many, learning_rate); },
        ThrowsMessage<Error>("gradient: 4 vectors given; the problem has 3 workers, give one each"));
    EXPECT_THROW(optimizer.step({}, learning_rate), Error);
    PerRank<T> one_short = this->good(2);
    one_short[1].conservativeResize(size - 1);
    EXPECT_THAT([&] { optimizer.step(one_short, learning_rate); },
                ThrowsMessage<Error>("gradient of rank 1: it has 39 values; the model has 40 parameters"));
    EXPECT_TRUE(same_bits(optimizer.state, before));
}

TYPED_TEST(ScapeRefusalTest, AStateOfAnotherNumberOfWorkersIsRefused) {
    using T = TypeParam;
    Scape<T> optimizer = this->make();
    optimizer.step(this->good(1), learning_rate);
    optimizer.state.e.pop_back();
    const ScapeState<T> before = optimizer.state;
    EXPECT_THAT(
        [&] { optimizer.step(this->good(2), learning_rate); },
        ThrowsMessage<Error>("residual: 2 vectors given; the problem has 3 workers, give one each"));
    EXPECT_TRUE(same_bits(optimizer.state, before));
}

TYPED_TEST(ScapeRefusalTest, AScheduleThatEndsChangesNothing) {
    using T = TypeParam;
    // A run of T steps needs T + 1 entries, because the last step makes a mask too.
    Scape<T> optimizer(small_problem(), DensitySchedule::recorded({1.0, 0.5}), small_parameters<T>());
    optimizer.step(this->good(1), learning_rate);
    const ScapeState<T> before = optimizer.state;
    EXPECT_THAT([&] { optimizer.step(this->good(2), learning_rate); },
                ThrowsMessage<Error>("density: step 3 is past the last of 2 recorded entries"));
    EXPECT_TRUE(same_bits(optimizer.state, before));
}

TYPED_TEST(ScapeRefusalTest, ParametersOfAnotherSizeAreRefused) {
    using T = TypeParam;
    EXPECT_THAT([] { Scape<T>(small_problem(), DensitySchedule::constant(1.0), Vector<T>::Zero(39)); },
                ThrowsMessage<Error>(
                    "initial parameters of rank 0: it has 39 values; the model has 40 parameters"));
}

TYPED_TEST(ScapeRefusalTest, AnImpossibleProblemIsRefused) {
    using T = TypeParam;
    problem::Problem problem = small_problem();
    problem.settings.beta1 = 1.0;
    EXPECT_THROW((Scape<T>(problem, DensitySchedule::constant(1.0), small_parameters<T>())), Error);
}

} // namespace
} // namespace truestep::reference::scape
