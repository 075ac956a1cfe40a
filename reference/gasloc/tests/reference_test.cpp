// Tests GASLoC's reference on rounds worked out by hand: drift, gossip, momentum, skips, restarts.
#include <truestep/reference/gasloc/reference.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace truestep::reference::gasloc {
namespace {

using Floats = Vector<float>;

Floats floats(std::initializer_list<float> values) {
    Floats result(static_cast<Index>(values.size()));
    std::copy(values.begin(), values.end(), result.begin());
    return result;
}

::testing::AssertionResult same(const Floats& actual, std::initializer_list<float> expected) {
    const Floats wanted = floats(expected);
    for (Index i = 0; i < wanted.size(); ++i)
        if (i >= actual.size() ||
            std::bit_cast<std::uint32_t>(actual[i]) != std::bit_cast<std::uint32_t>(wanted[i]))
            return ::testing::AssertionFailure()
                   << "value " << i << " is " << actual[i] << ", not " << wanted[i];
    return ::testing::AssertionSuccess();
}

Settings plain_sgd() {
    Settings settings;
    settings.inner = Inner::sgd;
    settings.hyper.weight_decay = 0.0;
    settings.eta = 1.0;
    settings.alpha = 1.0;
    settings.gamma = 0.0;
    settings.law = Law::given;
    return settings;
}

// x_0 = 1 - 0.5*2 - 0.5*1 = -0.5 and x_1 = 1 - 0.5*(-4) = 3. With eta 0.5: y_0 = 1 + 0.5*(-1.5) = 0.25, y_1
// = 2; an edge with weight 1 and alpha 1 makes the mean of both.
TEST(Reference, TwoWorkersMeetInTheMiddle) {
    Settings settings = plain_sgd();
    settings.eta = 0.5;
    Reference<float> pair(settings, 2, floats({1.0F}));
    const auto went =
        pair.round({{floats({2.0F}), floats({1.0F})}, {floats({-4.0F})}}, {0.5, 0.5}, {{0, 1}});
    EXPECT_TRUE(same(went[0].x, {-0.5F}));
    EXPECT_TRUE(same(went[1].x, {3.0F}));
    EXPECT_TRUE(same(went[0].y, {0.25F}));
    EXPECT_TRUE(same(went[1].y, {2.0F}));
    for (int worker = 0; worker < 2; ++worker) {
        EXPECT_TRUE(same(pair.state[static_cast<std::size_t>(worker)].theta, {1.125F}));
        EXPECT_FALSE(pair.halted(worker));
    }
    EXPECT_EQ(pair.state[0].s, 2);
    EXPECT_EQ(pair.state[1].s, 1);
    EXPECT_EQ(pair.rounds, 1);
}

// Round 1 drifts worker 0 from 0 to 8. After that y = theta, and only the momentum moves theta by y
// - before.
TEST(Reference, MomentumIsOfYOrOfZ) {
    for (const Momentum placement : {Momentum::local, Momentum::gossiped}) {
        Settings settings = plain_sgd();
        settings.alpha = 0.5;
        settings.gamma = 0.5;
        settings.momentum = placement;
        Reference<float> pair(settings, 2, floats({0.0F}));
        const bool local = placement == Momentum::local;
        // z_0 = 8 - 0.25*8 = 6, z_1 = 0 + 0.25*8 = 2.
        pair.round({{floats({-8.0F})}, {}}, {1.0}, {{0, 1}});
        EXPECT_TRUE(same(pair.state[0].theta, {local ? 6.0F + 0.5F * 8.0F : 6.0F + 0.5F * 6.0F}));
        EXPECT_TRUE(same(pair.state[1].theta, {local ? 2.0F : 2.0F + 0.5F * 2.0F}));
        EXPECT_TRUE(same(pair.state[0].before, {local ? 8.0F : 6.0F}));
        // Alone: y = theta, z = y.
        pair.round({{}, {}}, {}, {});
        EXPECT_TRUE(same(pair.state[0].theta, {local ? 10.0F + 0.5F * 2.0F : 9.0F + 0.5F * 3.0F}));
    }
}

TEST(Reference, NobodyReadsAYThatHasBeenGossiped) {
    Reference<float> three(plain_sgd(), 3, floats({0.0F}));
    three.round({{floats({-4.0F})}, {}, {}}, {1.0}, {{0, 1}, {1, 2}});
    EXPECT_TRUE(same(three.state[0].theta, {2.0F}));
    EXPECT_TRUE(same(three.state[1].theta, {2.0F}));
    EXPECT_TRUE(same(three.state[2].theta, {0.0F})) << "worker 1 had nothing when worker 2 met it";
}

TEST(Reference, ABadGradientSkipsTheRoundOfItsWorkerAlone) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        Settings settings = plain_sgd();
        settings.inner = Inner::adamw;
        Reference<float> pair(settings, 2, floats({1.0F, -0.0F}));
        const auto went = pair.round({{floats({1.0F, 1.0F}), floats({1.0F, bad})}, {floats({1.0F, 1.0F})}},
                                     {0.5, 0.5}, {});
        EXPECT_TRUE(went[0].skipped);
        EXPECT_FALSE(went[1].skipped);
        EXPECT_TRUE(same(pair.state[0].theta, {1.0F, -0.0F})) << "not even the sign of a zero";
        EXPECT_TRUE(same(pair.state[0].m, {0.0F, 0.0F}));
        EXPECT_EQ(pair.state[0].s, 0);
        EXPECT_EQ(pair.state[1].s, 1);
    }
}

// The first step of Adam is lr*sign(g), apart from epsilon; the bias correction counts s, not
// rounds.
TEST(Reference, BiasCorrectionGoesByInnerSteps) {
    for (const Inner inner : {Inner::adams, Inner::adamw}) {
        Settings settings = plain_sgd();
        settings.inner = inner;
        settings.hyper.epsilon = 1e-30;
        Reference<double> one(settings, 1, Vector<double>::Zero(1));
        const Vector<double> g = Vector<double>::Constant(1, 3.0);
        one.round({{g}}, {0.25}, {});
        EXPECT_NEAR(one.state[0].theta[0], -0.25, 1e-12) << name(inner);
        if (inner == Inner::adamw) { // equal gradients: every step is lr*sign(g)
            one.round({{g, g, g}}, {0.25, 0.25, 0.25}, {});
            EXPECT_NEAR(one.state[0].theta[0], -1.0, 1e-12);
            EXPECT_EQ(one.state[0].s, 4);
        }
    }
}

TEST(Reference, DecayComesFirst) {
    Settings settings = plain_sgd();
    settings.hyper.weight_decay = 0.5;
    Reference<float> one(settings, 1, floats({8.0F}));
    one.round({{floats({1.0F})}}, {0.5}, {});
    EXPECT_TRUE(same(one.state[0].theta, {8.0F * 0.75F - 0.5F}));
}

TEST(Reference, WhatIsNotFiniteHalts) {
    Reference<float> pair(plain_sgd(), 2, floats({0.0F}));
    pair.round({{floats({-3e38F})}, {floats({3e38F})}}, {1.0}, {});
    EXPECT_FALSE(pair.halted(0));
    pair.round({{}, {}}, {}, {{0, 1}}); // the difference overflows
    EXPECT_TRUE(pair.halted(0));
    EXPECT_TRUE(pair.halted(1));
}

TEST(Reference, AnotherNumberOfWorkersBeginsWithTheMean) {
    Reference<float> three(plain_sgd(), 3, floats({0.0F}));
    three.round({{floats({-1.0F})}, {floats({-2.0F}), floats({-2.0F})}, {}}, {1.0, 1.0}, {});
    const auto two = redistribute(three.state, 2);
    ASSERT_EQ(two.size(), 2U);
    for (const WorkerState<float>& worker : two) {
        EXPECT_TRUE(same(worker.theta, {5.0F / 3.0F}));
        EXPECT_TRUE(same(worker.before, {5.0F / 3.0F}));
        EXPECT_EQ(worker.s, 2);
    }
    EXPECT_TRUE(same(redistribute(three.state, 3)[0].theta, {1.0F})) << "as many: nothing changes";
}

TEST(Reference, ModelsOfNoParameters) {
    Reference<float> pair(plain_sgd(), 2, Floats());
    pair.round({{Floats()}, {}}, {1.0}, {{0, 1}});
    EXPECT_EQ(pair.state[1].theta.size(), 0);
}

} // namespace
} // namespace truestep::reference::gasloc
