// Tests GASLoC's eigenvalues, its best momentum, and the border between stable and unstable.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>

namespace truestep::problem::gasloc {
namespace {

Settings settings_of(Law law, double alpha, double gamma, Momentum momentum = Momentum::local) {
    Settings settings;
    settings.law = law;
    settings.alpha = alpha;
    settings.gamma = gamma;
    settings.momentum = momentum;
    return settings;
}

std::string refused(const Settings& settings, int workers, const std::vector<Graph>& given = {}) {
    try {
        check_stable(settings, workers, given);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

bool is_stable(const Settings& settings, int workers) {
    return refused(settings, workers) == "no error";
}

double ring_least(int workers) {
    return 1 - std::cos(2 * std::numbers::pi / workers);
}

/// The eigenvalues of a ring without the 0 of agreement.
std::vector<double> ring_eigenvalues(int workers) {
    std::vector<double> values;
    for (int k = 1; k < workers; ++k)
        values.push_back(1 - std::cos(2 * std::numbers::pi * k / workers));
    return values;
}

TEST(Eigenvalues, OfGraphsThatAreKnown) {
    EXPECT_THAT(eigenvalues({}, 2), testing::ElementsAre(0.0, 0.0));
    const std::vector<double> path = eigenvalues({{0, 1}, {1, 2}}, 3);
    ASSERT_EQ(path.size(), 3U);
    EXPECT_NEAR(path[0], 0.0, 1e-15);
    EXPECT_NEAR(path[1], 0.5, 1e-15);
    EXPECT_NEAR(path[2], 1.5, 1e-15);
    const std::vector<double> weighted = eigenvalues({{0, 1, 3.0}, {0, 2, 0.5}}, 4);
    // The characteristic polynomial of the three joined workers: l^3 - 3.5 l^2 + 1.125 l.
    const double root = std::sqrt(3.5 * 3.5 - 4 * 1.125);
    EXPECT_NEAR(weighted[2], (3.5 - root) / 2, 1e-14);
    EXPECT_NEAR(weighted[3], (3.5 + root) / 2, 1e-14);
    for (const int workers : {2, 3, 8, 100}) {
        const std::vector<double> complete = eigenvalues(graph_of(Law::complete, 1, 1, workers), workers);
        EXPECT_NEAR(complete[0], 0.0, 1e-13);
        EXPECT_NEAR(complete[1], 1.0, 1e-13);
        EXPECT_NEAR(complete.back(), 1.0, 1e-13);
    }
    for (const int workers : {3, 8, 99}) {
        std::vector<double> expected = ring_eigenvalues(workers);
        expected.push_back(0.0);
        std::sort(expected.begin(), expected.end());
        EXPECT_THAT(eigenvalues(graph_of(Law::ring, 1, 1, workers), workers),
                    testing::Pointwise(testing::DoubleNear(1e-13), expected));
    }
}

// All graphs that a law draws have the same sum of eigenvalues and of their squares.
TEST(Moments, AreThoseOfTheGraphs) {
    for (const Law law : {Law::pairs, Law::two_peers})
        for (const int workers : {2, 3, 4, 7, 12})
            for (Index round = 1; round <= 3; ++round) {
                double sum = 0.0;
                double squares = 0.0;
                for (const double value : eigenvalues(graph_of(law, 9, round, workers), workers)) {
                    sum += value;
                    squares += value * value;
                }
                const auto [p, q] = moments(law, workers);
                EXPECT_NEAR(p, sum / (workers - 1), 1e-13) << name(law) << ' ' << workers;
                EXPECT_NEAR(q, squares / (workers - 1), 1e-13) << name(law) << ' ' << workers;
            }
}

TEST(Best, IsTheFastestOfAFixedGraph) {
    for (const int workers : {3, 8, 17}) {
        const std::vector<double> values = ring_eigenvalues(workers);
        const double greatest = *std::max_element(values.begin(), values.end());
        const Best fastest = best(ring_least(workers), greatest);
        const auto rate_at = [&](double alpha, double gamma) {
            return fixed_rate(values, alpha, gamma, Momentum::local);
        };
        // A double root halves the digits.
        EXPECT_NEAR(rate_at(fastest.alpha, fastest.gamma), fastest.rate, 1e-7);
        EXPECT_DOUBLE_EQ(fastest.rate, std::sqrt(fastest.gamma));
        for (const double change : {-0.01, 0.01}) {
            EXPECT_GE(rate_at(fastest.alpha + change, fastest.gamma), fastest.rate - 1e-12);
            EXPECT_GE(rate_at(fastest.alpha, fastest.gamma + change), fastest.rate - 1e-12);
        }
        const Best plain = best_plain(ring_least(workers), greatest);
        EXPECT_NEAR(rate_at(plain.alpha, 0.0), plain.rate, 1e-14);
        EXPECT_GT(rate_at(plain.alpha - 0.01, 0.0), plain.rate);
        EXPECT_GT(rate_at(plain.alpha + 0.01, 0.0), plain.rate);
    }
    EXPECT_DOUBLE_EQ(best(1, 1).alpha, 1.0);
    EXPECT_DOUBLE_EQ(best(1, 1).rate, 0.0);
}

/// How often a ring has to gossip until 1e-6 of the disagreement is left: by the formula, and by
/// playing section 13 where one worker alone began differently. All workers of a ring are alike, so
/// this is the mean over all starts.
struct Rounds {
    int formula = 0, played = 0;
};
Rounds rounds_until_gone(int workers, const Best& choice) {
    const std::vector<double> left =
        disagreement(ring_eigenvalues(workers), choice.alpha, choice.gamma, Momentum::local, 5000);
    const auto n = static_cast<std::size_t>(workers);
    std::vector<double> now(n, -1.0 / workers);
    now[0] += 1;
    std::vector<double> before = now;
    const auto norm = [&] {
        double sum = 0.0;
        for (const double x : now)
            sum += x * x;
        return std::sqrt(sum);
    };
    const double first = norm();
    Rounds rounds;
    for (; norm() > 1e-6 * first; ++rounds.played) {
        EXPECT_NEAR(norm() / first, left[static_cast<std::size_t>(rounds.played)], 1e-9);
        std::vector<double> next(n);
        for (std::size_t i = 0; i < n; ++i)
            next[i] = now[i] - choice.alpha / 2 * (2 * now[i] - now[(i + 1) % n] - now[(i + n - 1) % n]) +
                      choice.gamma * (now[i] - before[i]);
        before = now;
        now = next;
    }
    rounds.formula = static_cast<int>(
        std::find_if(left.begin(), left.end(), [](double value) { return value <= 1e-6; }) - left.begin());
    return rounds;
}

TEST(Best, TheAcceleratedRingBeatsThePlainOne) {
    struct Row {
        int workers, plain, accelerated;
    };
    for (const Row& row : {Row{8, 46, 21}, Row{16, 171, 43}, Row{32, 659, 88}, Row{64, 2553, 180}}) {
        const double least = ring_least(row.workers);
        const Rounds plain = rounds_until_gone(row.workers, best_plain(least, 2));
        const Rounds accelerated = rounds_until_gone(row.workers, best(least, 2));
        EXPECT_EQ(plain.played, row.plain);
        EXPECT_EQ(plain.formula, row.plain);
        EXPECT_EQ(accelerated.played, row.accelerated);
        EXPECT_EQ(accelerated.formula, row.accelerated);
    }
}

TEST(Stable, TurnsWorkedOutByHand) {
    // A square of four: at alpha = 1 each round either leaves a component alone or takes all of it.
    for (const double gamma : {0.25, 0.9})
        EXPECT_NEAR(rate(settings_of(Law::hypercube, 1, gamma), 4).value, std::sqrt(gamma), 1e-7);
    // Waves around four, gamma = 0: one has 1 - alpha in both rounds (in the second, two and two meet, each
    // pair once), the other 1 - 2 alpha, then 1.
    EXPECT_NEAR(rate(settings_of(Law::exponential, 0.75, 0), 4).value, std::sqrt(0.5), 1e-14);
    EXPECT_NEAR(rate(settings_of(Law::exponential, 0.4, 0), 4).value, 0.6, 1e-14);
    EXPECT_EQ(rate(settings_of(Law::exponential, 1, 0), 4).value, 1.0);
}

TEST(Stable, FixedGraphsUpToTheirBorder) {
    for (const double gamma : {0.0, 0.3, 0.9, 0.99})
        for (const Momentum momentum : {Momentum::local, Momentum::gossiped}) {
            const double border = 2 * (1 + gamma) / (momentum == Momentum::local ? 1 : 1 + 2 * gamma);
            for (const int workers : {2, 8, 64}) {
                const double greatest = workers == 2 ? 1 : 2;
                for (const double part : {1e-3, 0.5, 1 - 1e-9}) {
                    EXPECT_TRUE(is_stable(settings_of(Law::ring, part * border / greatest, gamma, momentum),
                                          workers));
                    EXPECT_TRUE(
                        is_stable(settings_of(Law::complete, part * border, gamma, momentum), workers));
                }
                const double beyond = (1 + 1e-9) * border;
                EXPECT_FALSE(
                    is_stable(settings_of(Law::ring, beyond / greatest, gamma, momentum), workers));
                EXPECT_FALSE(is_stable(settings_of(Law::complete, beyond, gamma, momentum), workers));
            }
        }
}

/// The greatest stable alpha by section 15.
double random_border(Law law, int workers, double g, Momentum momentum) {
    const auto [p, q] = moments(law, workers);
    if (momentum == Momentum::local)
        return 2 * (1 - g * g) * p / ((1 + g) * q - 2 * g * p * p);
    const double square = p * q * g * (1 + 2 * g);
    const double linear = (1 + g) * q - 2 * p * p * g * (1 + 2 * g);
    const double constant = 2 * p * (1 - g * g);
    // The positive root of square alpha^2 + linear alpha - constant, also where square is 0.
    return 2 * constant / (linear + std::sqrt(linear * linear + 4 * square * constant));
}

TEST(Stable, RandomGraphsUpToTheirBorder) {
    for (const Law law : {Law::pairs, Law::two_peers})
        for (const int workers : {2, 3, 4, 9, 64})
            for (const double gamma : {0.0, 0.3, 0.7, 0.95})
                for (const Momentum momentum : {Momentum::local, Momentum::gossiped}) {
                    const double border = random_border(law, workers, gamma, momentum);
                    for (const double part : {1e-3, 0.5, 1 - 1e-6})
                        EXPECT_TRUE(is_stable(settings_of(law, part * border, gamma, momentum), workers));
                    for (const double part : {1 + 1e-6, 1.5, 10.0})
                        EXPECT_FALSE(is_stable(settings_of(law, part * border, gamma, momentum), workers));
                }
}

TEST(Stable, FullAveragingOfPairsUpToTheGammaOfTheSpecification) {
    const auto greatest_gamma = [](int workers, double exact, double rounded) {
        EXPECT_NEAR(exact, rounded, 5e-4);
        EXPECT_TRUE(is_stable(settings_of(Law::pairs, 1, exact - 1e-9), workers));
        EXPECT_FALSE(is_stable(settings_of(Law::pairs, 1, exact + 1e-9), workers));
    };
    greatest_gamma(4, (1 + std::sqrt(73.0)) / 12, 0.795);
    greatest_gamma(8, (1 + std::sqrt(393.0)) / 28, 0.744);
    greatest_gamma(1 << 30, std::sqrt(0.5), 0.707);
}

TEST(Stable, WhatIsNotIsToldWithTheNearestThatIs) {
    EXPECT_EQ(
        refused(settings_of(Law::pairs, 1, 0.9), 8),
        "alpha is 1 and gamma 0.9: disagreement of 8 workers under the law pairs grows by 1.17 a round "
        "(mean square); use a gamma below 0.7437, or allow_unstable");
    EXPECT_TRUE(is_stable(settings_of(Law::pairs, 1, 0.7437), 8));
    EXPECT_EQ(refused(settings_of(Law::ring, 1, 0), 8), "alpha is 1 and gamma 0: disagreement of 8 workers "
                                                        "under the law ring does not shrink; use an alpha "
                                                        "below 1, or allow_unstable");
    EXPECT_EQ(
        refused(settings_of(Law::complete, 3.5, 0.7), 5),
        "alpha is 3.5 and gamma 0.7: disagreement of 5 workers under the law complete grows by 1.23 a "
        "round; use a gamma above 0.75, or allow_unstable");
    EXPECT_EQ(
        refused(settings_of(Law::exponential, 1, 0.5), 64),
        "alpha is 1 and gamma 0.5: disagreement of 64 workers under the law exponential grows by 1.2 a "
        "round; use an alpha below 0.5158, or allow_unstable");
    for (const double alpha : {1e200, 1e308})
        for (const Law law : {Law::pairs, Law::ring, Law::exponential})
            for (const Momentum momentum : {Momentum::local, Momentum::gossiped})
                EXPECT_FALSE(is_stable(settings_of(law, alpha, 0.5, momentum), 8)) << name(law);
}

TEST(Stable, GivenGraphsEachByItself) {
    const Graph star{{0, 2}, {1, 2}, {2, 3}, {2, 4}}; // eigenvalues 0, 0.5 (three times), 2.5
    const Graph pair{{0, 1}};
    EXPECT_EQ(refused(settings_of(Law::given, 1, 0.3), 5, {pair, {}, star}), "no error");
    EXPECT_EQ(
        refused(settings_of(Law::given, 1, 0.1), 5, {pair, {}, star, star}),
        "alpha is 1 and gamma 0.1: disagreement of 5 workers under the graph of round 3 grows by 1.32 a "
        "round; use an alpha below 0.88, or allow_unstable");
    EXPECT_EQ(refused(settings_of(Law::given, 1, 0.1), 5), "no error");
    EXPECT_THROW(static_cast<void>(rate(settings_of(Law::given, 1, 0.1), 5)), Error);
}

TEST(Stable, WhereNobodyMeetsOrItIsAllowedNothingIsRefused) {
    EXPECT_EQ(rate(settings_of(Law::ring, 9, 0.999), 1).value, 0.0);
    EXPECT_EQ(rate(settings_of(Law::none, 9, 0.999), 8).value, 1.0);
    EXPECT_EQ(rate(settings_of(Law::pairs, 0, 0.999), 8).value, 1.0);
    for (const Law law : all_laws) {
        EXPECT_TRUE(is_stable(settings_of(law, 9, 0.999), 1));
        EXPECT_TRUE(is_stable(settings_of(law, 0, 0.999), 8));
        Settings allowed = settings_of(law, 9, 0.999);
        allowed.allow_unstable = true;
        EXPECT_TRUE(is_stable(allowed, 8));
    }
    EXPECT_TRUE(is_stable(settings_of(Law::none, 9, 0.999), 8));
    EXPECT_TRUE(rate(settings_of(Law::pairs, 1, 0.5), 8).of_squares);
    EXPECT_FALSE(rate(settings_of(Law::ring, 1, 0.5), 8).of_squares);
    EXPECT_THAT(refused(settings_of(Law::hypercube, 1, 0.5), 6), testing::HasSubstr("use a power of two"));
    for (const int workers : {2, 3, 8, 1 << 20})
        EXPECT_TRUE(is_stable(Settings{}, workers)) << workers;
}

} // namespace
} // namespace truestep::problem::gasloc
