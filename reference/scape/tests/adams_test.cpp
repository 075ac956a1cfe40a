// Tests AdamS's reference: moments, bias correction, decay, epsilon, refused steps and halts.
#include <truestep/reference/scape/adams.hpp>

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

#include "support.hpp"

namespace truestep::reference::scape {
namespace {

using problem::BiasCorrection;
using problem::DecayOrder;
using ::testing::ThrowsMessage;

template <class T>
class AdamsTest : public ::testing::Test {
  protected:
    static problem::Problem make_problem(const problem::HyperParameters& settings, int workers,
                                         Index size) {
        return problem::make_problem(problem::Algorithm::adams, workers, problem::Layout({{"a", size}}),
                                     problem::PartitionRule::by_shard, settings);
    }

    static AdamS<T> make(const problem::HyperParameters& settings, int workers, Vector<T> parameters) {
        const Index size = parameters.size();
        return {make_problem(settings, workers, size), std::move(parameters)};
    }

    /// Settings under which many results are exact.
    static problem::HyperParameters dyadic() {
        problem::HyperParameters settings;
        settings.beta1 = 0.5;
        settings.beta2 = 0.75;
        settings.epsilon = 0x1p-100;
        settings.weight_decay = 0.5;
        settings.bias_correction = BiasCorrection::none;
        return settings;
    }

    static void expect_within_four_ulps(T actual, double expected) {
        const auto nearest = static_cast<T>(expected);
        const T ulp =
            std::nextafter(std::fabs(nearest), std::numeric_limits<T>::infinity()) - std::fabs(nearest);
        EXPECT_LE(std::fabs(actual - nearest), 4 * ulp) << actual << " against " << expected;
    }
};
TYPED_TEST_SUITE(AdamsTest, Scalars);

TYPED_TEST(AdamsTest, TheFirstStepMovesByTheFactorOfItsBiasCorrection) {
    using T = TypeParam;
    // The table of section 3, for betas 0.9 and 0.95, in units of lr*sign(g). In double 1 - 0.95
    // differs slightly from 0.05, and that shows.
    constexpr double lr = 0x1p-10;
    const double root_of_a2 = std::sqrt(1.0 - 0.95);
    for (const auto& [correction, factor, in_the_table] :
         {std::tuple{BiasCorrection::none, (1.0 - 0.9) / root_of_a2, 0.447},
          {BiasCorrection::adam, 1.0, 1.0},
          {BiasCorrection::momentum, 1.0 / root_of_a2, 4.47}}) {
        EXPECT_NEAR(factor, in_the_table, 5e-3 * in_the_table);
        problem::HyperParameters settings;
        settings.bias_correction = correction;
        settings.epsilon = 1e-30;
        settings.weight_decay = 0.0;
        const Vector<T> g = vector_of<T>({T(1), T(-1), T(0.3), T(1e-12), T(-0x1p56), T(1234.5)});
        AdamS<T> optimizer = this->make(settings, 1, Vector<T>::Zero(6));
        optimizer.step({g}, lr);
        for (Index index = 0; index < g.size(); ++index)
            this->expect_within_four_ulps(optimizer.state.w[index],
                                          -lr * factor * std::copysign(1.0, static_cast<double>(g[index])));
    }
}

TYPED_TEST(AdamsTest, AParameterGroupIsSteppedAsAModelOfItsOwn) {
    using T = TypeParam;
    for (const DecayOrder order : {DecayOrder::first, DecayOrder::together}) {
        problem::HyperParameters settings;
        settings.decay_order = order;
        settings.more_weight_decays = {0.0, 0.5};
        const problem::Layout layout(
            {{"a", 3}, {"b", 2, false, 1}, {"none", 0, false, 1}, {"c", 4, false, 2}, {"d", 2, false, 1}});
        Vector<T> start(layout.size());
        for (Index i = 0; i < start.size(); ++i)
            start[i] = T(0.25) * static_cast<T>(i + 1);
        AdamS<T> all(problem::make_problem(problem::Algorithm::adams, 2, layout,
                                           problem::PartitionRule::by_shard, settings),
                     start);
        const std::vector<std::vector<double>> rates{{0.1, 0.01, 0.001}, {0.2, 0.3, 0.4}, {0.5, 0.0, 0.6}};
        const auto gradient_of = [](Index rank, Index step, Index begin, Index length) {
            Vector<T> g(length);
            for (Index i = 0; i < length; ++i)
                g[i] = T(std::sin(static_cast<double>(7 * rank + 3 * step + begin + i)));
            return g;
        };
        const auto step_with = [&](AdamS<T>& optimizer, const problem::LearningRates& of_step, Index step,
                                   Index begin, Index length) {
            optimizer.step({gradient_of(0, step, begin, length), gradient_of(1, step, begin, length)},
                           of_step);
        };
        for (Index step = 0; step < 3; ++step)
            step_with(all, problem::LearningRates(rates[static_cast<std::size_t>(step)]), step, 0,
                      layout.size());
        for (const std::size_t tensor : {0U, 1U, 3U, 4U}) {
            const Index group = layout.tensors()[tensor].param_group;
            const Index begin = layout.begin(tensor);
            const Index length = layout.end(tensor) - begin;
            problem::HyperParameters of_group = settings;
            of_group.weight_decay = settings.weight_decay_of(group);
            of_group.more_weight_decays.clear();
            AdamS<T> alone = this->make(of_group, 2, start.segment(begin, length));
            for (Index step = 0; step < 3; ++step)
                step_with(alone, rates[static_cast<std::size_t>(step)][static_cast<std::size_t>(group)],
                          step, begin, length);
            EXPECT_TRUE((alone.state.w == all.state.w.segment(begin, length)).all())
                << layout.tensors()[tensor].name;
        }
    }
}

TYPED_TEST(AdamsTest, TheDenominatorHoldsThePreviousMoment) {
    using T = TypeParam;
    // g = 4, then 1/2: m = 2, M = 5/4, v = (3*m^2 + g^2)/4 = (7/4)^2, u = 5/7.
    problem::HyperParameters settings = this->dyadic();
    settings.weight_decay = 0.0;
    AdamS<T> optimizer = this->make(settings, 1, Vector<T>::Zero(1));
    optimizer.step({vector_of<T>({4})}, 1.0);
    EXPECT_EQ(optimizer.state.m[0], T(2));
    EXPECT_EQ(optimizer.state.w[0], T(-1));
    optimizer.step({vector_of<T>({0.5})}, 1.0);
    EXPECT_EQ(optimizer.state.m[0], T(1.25));
    EXPECT_EQ(optimizer.state.w[0], T(-1) - T(5) / T(7));
}

TYPED_TEST(AdamsTest, TheMomentumCorrectionHoldsForThePreviousMomentToo) {
    using T = TypeParam;
    // Step 1: C1 = 1/2, u = (M/C1)/sqrt(a2*g^2) = 4/2. Step 2: C1 = 3/4, q = m/C1 = 2/C1, M = 5/4.
    problem::HyperParameters settings = this->dyadic();
    settings.weight_decay = 0.0;
    settings.bias_correction = BiasCorrection::momentum;
    AdamS<T> optimizer = this->make(settings, 1, Vector<T>::Zero(1));
    optimizer.step({vector_of<T>({4})}, 1.0);
    EXPECT_EQ(optimizer.state.w[0], T(-2));
    optimizer.step({vector_of<T>({0.5})}, 1.0);
    this->expect_within_four_ulps(optimizer.state.w[0],
                                  -2.0 - (5.0 / 3.0) / std::sqrt(0.75 * 64.0 / 9.0 + 0.0625));
}

TYPED_TEST(AdamsTest, TheDecayComesFirst) {
    using T = TypeParam;
    // lr = 1, decay = 1/2, u = 1: 8/2 - 1, where a decay after the update would give (8 - 1)/2.
    AdamS<T> optimizer = this->make(this->dyadic(), 1, vector_of<T>({8}));
    optimizer.step({vector_of<T>({2})}, 1.0);
    EXPECT_EQ(optimizer.state.w[0], T(3));
}

TYPED_TEST(AdamsTest, TheDecayThatComesTogetherIsRoundedWithTheUpdate) {
    using T = TypeParam;
    problem::HyperParameters settings = this->dyadic();
    settings.decay_order = DecayOrder::together;
    settings.weight_decay = 0.1;
    AdamS<T> optimizer = this->make(settings, 1, vector_of<T>({3}));
    optimizer.step({vector_of<T>({2})}, 0.25);
    EXPECT_TRUE(same_bits<T>(optimizer.state.w[0], T(3) - T(0.25) * (T(1) + T(0.1) * T(3))));
}

TYPED_TEST(AdamsTest, EpsilonStandsOutsideTheRoot) {
    using T = TypeParam;
    problem::HyperParameters settings = this->dyadic();
    settings.weight_decay = 0.0;
    settings.epsilon = 1.0;
    AdamS<T> optimizer = this->make(settings, 1, Vector<T>::Zero(1));
    optimizer.step({vector_of<T>({2})}, 1.0); // M = 1, sqrt(v) = 1
    EXPECT_EQ(optimizer.state.w[0], T(-0.5));
}

TYPED_TEST(AdamsTest, EpsilonIsAddedAfterTheSecondCorrection) {
    using T = TypeParam;
    problem::HyperParameters settings = this->dyadic();
    settings.weight_decay = 0.0;
    settings.epsilon = 1.0;
    settings.bias_correction = BiasCorrection::adam;
    AdamS<T> optimizer = this->make(settings, 1, Vector<T>::Zero(1));
    optimizer.step({vector_of<T>({2})}, 1.0); // M/C1 = 2, sqrt(v)/sqrt(C2) = 1/(1/2)
    EXPECT_EQ(optimizer.state.w[0], T(-2) / T(3));
}

TYPED_TEST(AdamsTest, EveryOperationIsThatOfSectionFive) {
    using T = TypeParam;
    constexpr int workers = 3;
    constexpr Index size = 37;
    constexpr double lr = 3e-3;
    for (const BiasCorrection correction : all_corrections)
        for (const DecayOrder order : {DecayOrder::first, DecayOrder::together}) {
            problem::HyperParameters settings;
            settings.bias_correction = correction;
            settings.decay_order = order;
            std::mt19937_64 generator(9);
            AdamS<T> optimizer = this->make(settings, workers, random_vector<T>(generator, size));
            for (Index t = 1; t <= 6; ++t) {
                const Vector<T> w = optimizer.state.w;
                const Vector<T> m = optimizer.state.m;
                const PerRank<T> gradients = random_gradients<T>(workers, size, t);
                optimizer.step(gradients, lr);
                const T b1 = T(0.9);
                const T a1 = T(1.0 - 0.9);
                const T b2 = T(0.95);
                const T a2 = T(1.0 - 0.95);
                const double c1 = 1.0 - power(0.9, t);
                const double c2 = 1.0 - power(0.95, t);
                for (Index i = 0; i < size; ++i) {
                    const T g = ((gradients[0][i] + gradients[1][i]) + gradients[2][i]) / T(3);
                    const T M = b1 * m[i] + a1 * g;
                    T u;
                    if (correction == BiasCorrection::none) {
                        u = M / (std::sqrt(b2 * (m[i] * m[i]) + a2 * (g * g)) + T(1e-8));
                    } else if (correction == BiasCorrection::adam) {
                        const T root = std::sqrt(b2 * (m[i] * m[i]) + a2 * (g * g));
                        u = (M * T(1.0 / c1)) / (root * T(1.0 / std::sqrt(c2)) + T(1e-8));
                    } else {
                        const T q = m[i] * T(1.0 / c1);
                        u = (M * T(1.0 / c1)) / (std::sqrt(b2 * (q * q) + a2 * (g * g)) + T(1e-8));
                    }
                    const T updated = order == DecayOrder::first ? w[i] * T(1.0 - lr * 0.1) - T(lr) * u
                                                                 : w[i] - T(lr) * (u + T(0.1) * w[i]);
                    ASSERT_TRUE(same_bits(optimizer.state.m[i], M));
                    ASSERT_TRUE(same_bits(optimizer.state.w[i], updated));
                }
            }
        }
}

TYPED_TEST(AdamsTest, AStepReturnsTheMeanGradient) {
    using T = TypeParam;
    const PerRank<T> g = random_gradients<T>(5, 8, 1);
    AdamS<T> optimizer = this->make({}, 5, Vector<T>::Zero(8));
    EXPECT_TRUE(same_bits(optimizer.step(g, 1e-3), mean_in_rank_order(g)));
}

TYPED_TEST(AdamsTest, AZeroGradientFromTheStartOnlyDecays) {
    using T = TypeParam;
    for (const BiasCorrection correction : all_corrections) {
        problem::HyperParameters settings = this->dyadic();
        settings.bias_correction = correction;
        AdamS<T> optimizer = this->make(settings, 2, vector_of<T>({8, -4, 0, -0.0}));
        optimizer.step({vector_of<T>({0, -0.0, 0, -0.0}), Vector<T>::Zero(4)}, 0.5);
        EXPECT_TRUE(same_bits(optimizer.state.w, vector_of<T>({6, -3, 0, -0.0})));
        EXPECT_TRUE(same_bits<T>(optimizer.state.m, Vector<T>::Zero(4)));
    }
}

TYPED_TEST(AdamsTest, BetasOfZeroLeaveTheSignOfTheGradient) {
    using T = TypeParam;
    for (const BiasCorrection correction : all_corrections) {
        problem::HyperParameters settings = this->dyadic();
        settings.beta1 = settings.beta2 = settings.weight_decay = 0.0;
        settings.bias_correction = correction;
        AdamS<T> optimizer = this->make(settings, 1, Vector<T>::Zero(2));
        for (const T scale : {T(1), T(-3), T(0.5)}) {
            const Vector<T> before = optimizer.state.w;
            const Vector<T> g = scale * vector_of<T>({1, -2});
            optimizer.step({g}, 0.25);
            EXPECT_TRUE(same_bits(optimizer.state.m, g));
            EXPECT_TRUE(same_bits<T>(optimizer.state.w, before - T(0.25) * g.sign()));
        }
    }
}

TYPED_TEST(AdamsTest, SubnormalGradientsAreKept) {
    using T = TypeParam;
    constexpr T least = std::numeric_limits<T>::denorm_min();
    AdamS<T> optimizer = this->make(this->dyadic(), 1, Vector<T>::Zero(2));
    optimizer.step({vector_of<T>({8 * least, -2 * least})}, 1.0);
    EXPECT_TRUE(same_bits(optimizer.state.m, vector_of<T>({4 * least, -least})));
}

TYPED_TEST(AdamsTest, TheStepIsCounted) {
    using T = TypeParam;
    AdamS<T> optimizer = this->make({}, 1, Vector<T>::Zero(1));
    EXPECT_EQ(optimizer.state.step, 0);
    optimizer.step({vector_of<T>({1})}, 1e-3);
    EXPECT_EQ(optimizer.state.step, 1);
}

TYPED_TEST(AdamsTest, ARefusedStepChangesNoBitAndTheNextGoodOneWorks) {
    using T = TypeParam;
    AdamS<T> optimizer = this->make({}, 2, vector_of<T>({1, 2, 3}));
    AdamS<T> undisturbed = this->make({}, 2, vector_of<T>({1, 2, 3}));
    for (Index t = 1; t <= 3; ++t) {
        const PerRank<T> good = random_gradients<T>(2, 3, t);
        PerRank<T> bad = good;
        bad[1][2] = std::numeric_limits<T>::quiet_NaN();
        const auto before = optimizer.state;
        EXPECT_THAT(
            [&] { optimizer.step(bad, 1e-3); },
            ThrowsMessage<RefusedStep>(
                "step refused on all ranks: the gradient of rank 1, tensor a, index 2 (coordinate 2), is "
                "nan; it must be finite and at most 2^56 in magnitude"));
        EXPECT_EQ(optimizer.state.step, before.step);
        EXPECT_TRUE(same_bits(optimizer.state.w, before.w));
        EXPECT_TRUE(same_bits(optimizer.state.m, before.m));
        optimizer.step(good, 1e-3);
        undisturbed.step(good, 1e-3);
        EXPECT_TRUE(same_bits(optimizer.state.w, undisturbed.state.w));
    }
}

TYPED_TEST(AdamsTest, ANonFiniteStateHaltsUntilAGoodOneIsRestored) {
    using T = TypeParam;
    constexpr T most = std::numeric_limits<T>::max();
    problem::HyperParameters settings = this->dyadic();
    settings.weight_decay = 0.0;
    AdamS<T> optimizer = this->make(settings, 1, vector_of<T>({1, most}));
    const PerRank<T> g{vector_of<T>({2, -2})};
    const auto good = optimizer.state;
    constexpr auto text = "halted after step 1: the parameter of tensor a, index 1 (coordinate 1) is inf; "
                          "restore a finite state to continue";
    const double too_much = static_cast<double>(most) / 2; // u = -1
    EXPECT_THAT([&] { optimizer.step(g, too_much); }, ThrowsMessage<Halted>(text));
    EXPECT_THAT([&] { optimizer.step(g, 0.0); }, ThrowsMessage<Halted>(text));
    optimizer.state = good;
    EXPECT_NO_THROW(optimizer.step(g, 0.0));
    EXPECT_TRUE(same_bits(optimizer.state.w, good.w));
}

TYPED_TEST(AdamsTest, GradientsOfAnotherSizeAreRefusedAndChangeNothing) {
    using T = TypeParam;
    AdamS<T> optimizer = this->make({}, 2, vector_of<T>({1, 2, 3}));
    EXPECT_THAT(
        [&] { optimizer.step({Vector<T>::Zero(3)}, 1e-3); },
        ThrowsMessage<Error>("gradient: 1 vectors given; the problem has 2 workers, give one each"));
    EXPECT_THAT(
        [&] {
            optimizer.step({Vector<T>::Zero(3), Vector<T>::Zero(4)}, 1e-3);
        },
        ThrowsMessage<Error>("gradient of rank 1: it has 4 values; the model has 3 parameters"));
    EXPECT_EQ(optimizer.state.step, 0);
    EXPECT_TRUE(same_bits(optimizer.state.w, vector_of<T>({1, 2, 3})));
}

TYPED_TEST(AdamsTest, ParametersOfAnotherSizeAreRefused) {
    using T = TypeParam;
    EXPECT_THAT(
        [&] { AdamS<T>(this->make_problem({}, 2, 3), Vector<T>::Zero(2)); },
        ThrowsMessage<Error>("initial parameters of rank 0: it has 2 values; the model has 3 parameters"));
}

TYPED_TEST(AdamsTest, AnImpossibleProblemIsRefused) {
    using T = TypeParam;
    problem::Problem problem = this->make_problem({}, 1, 2);
    problem.settings.clip_norm = 1.0;
    EXPECT_THROW((AdamS<T>(problem, Vector<T>::Zero(2))), Error);
}

} // namespace
} // namespace truestep::reference::scape
