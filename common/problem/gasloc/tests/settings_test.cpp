// Tests the ranges of GASLoC's settings and the words of its choices.
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/settings.hpp>

namespace truestep::problem::gasloc {
namespace {

std::string refused(const std::function<void(Settings&)>& change) {
    Settings settings;
    change(settings);
    try {
        check(settings);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(Settings, GivenGraphsTakeTurnsAndOtherLawsHaveTheSeed) {
    const Graph first{{0, 1, 0.5}, {1, 2, 0.25}};
    const Graph second{{0, 2, 0.75}};
    Settings settings{.law = Law::given, .given = {first, second}};
    EXPECT_EQ(graph_of(settings, 1, 3), first);
    EXPECT_EQ(graph_of(settings, 2, 3), second);
    EXPECT_EQ(graph_of(settings, 5, 3), first);
    settings.given.clear();
    EXPECT_EQ(graph_of(settings, 1, 3), Graph{});
    settings.law = Law::pairs;
    settings.seed = 7;
    EXPECT_EQ(graph_of(settings, 4, 9), graph_of(Law::pairs, 7, 4, 9));
}

TEST(Settings, TheDefaultsWillDo) {
    EXPECT_EQ(refused([](Settings&) {}), "no error");
}

TEST(Settings, EachIsHeldToItsRange) {
    EXPECT_EQ(refused([](Settings& s) { s.eta = 0.0; }), "eta is 0; it must be positive");
    EXPECT_EQ(refused([](Settings& s) { s.alpha = -1.0; }), "alpha is -1; it must not be negative");
    EXPECT_EQ(refused([](Settings& s) { s.gamma = 1.0; }),
              "gamma is 1; it must be at least 0 and less than 1");
    EXPECT_EQ(refused([](Settings& s) { s.gamma = std::numeric_limits<double>::quiet_NaN(); }),
              "gamma is nan; it must be at least 0 and less than 1");
    EXPECT_EQ(refused([](Settings& s) { s.hyper.clip_norm = 1.0; }),
              "clip_norm is 1; gradients of inner steps are not clipped; use 0");
    EXPECT_EQ(refused([](Settings& s) { s.hyper.beta1 = 1.0; }), "beta1 is 1; it must be in [0, 1)");
    EXPECT_EQ(refused([](Settings& s) { s.seed = greatest_seed + 1; }),
              "seed is 9007199254740993; it must be at most 2^53");
}

TEST(Settings, WordsAndBack) {
    for (const Inner inner : {Inner::sgd, Inner::adams, Inner::adamw})
        EXPECT_EQ(parse_inner(name(inner)), inner);
    for (const Momentum momentum : {Momentum::local, Momentum::gossiped})
        EXPECT_EQ(parse_momentum(name(momentum)), momentum);
    EXPECT_THROW(static_cast<void>(parse_inner("lion")), Error);
    EXPECT_THROW(static_cast<void>(parse_momentum("nesterov")), Error);
}

} // namespace
} // namespace truestep::problem::gasloc
