// Tests verdicts and how often they are wrong, and shows that worse judges fail these tests.
#include <truestep/training/judge.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <ostream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

namespace truestep::training {

/// For GoogleTest's messages; it must be in the type's namespace.
void PrintTo(Outcome outcome, std::ostream* out) {
    *out << name(outcome);
}

namespace {

using ::testing::HasSubstr;

constexpr double trigram_of_all = 2.5;

Curve run_to(const std::string& optimizer, std::uint64_t seed, double loss) {
    return {.optimizer = optimizer,
            .seed = seed,
            .points = {{.step = 0, .loss = 4.5, .bytes = 0}, {.step = 100, .loss = loss, .bytes = 100}}};
}

std::vector<Curve> runs_to(const std::string& optimizer, const std::vector<double>& losses) {
    std::vector<Curve> all;
    for (std::size_t i = 0; i < losses.size(); ++i)
        all.push_back(run_to(optimizer, i + 1, losses[i]));
    return all;
}

/// Where runs end: a part that both runs of a seed share, a part of each run, and the planted
/// difference.
struct World {
    double shared = 0.02;
    double own = 0.005;
    double planted = 0.0;
    std::size_t pairs = 4;
    std::size_t sigma_from = 16;
    bool twins = false;
    double margin = 0.05;
};

struct Drawn {
    std::vector<Curve> base;
    std::vector<Curve> candidate;
};

class Worlds {
  public:
    explicit Worlds(std::uint64_t seed) : bits_(seed) {}

    Drawn pairs(const World& world, std::size_t count, double planted) {
        Drawn drawn;
        for (std::size_t i = 0; i < count; ++i) {
            const double start = 2.0 + (world.shared * normal_(bits_));
            drawn.base.push_back(run_to("adamw", i + 1, start + (world.own * normal_(bits_))));
            drawn.candidate.push_back(
                run_to("scape", i + 1, start + planted + (world.own * normal_(bits_))));
        }
        return drawn;
    }
    Sigma sigma(const World& world) {
        const Drawn drawn = pairs(world, world.sigma_from, 0.0);
        return world.twins ? sigma_of_twins(drawn.base, drawn.candidate) : sigma_of_seeds(drawn.base);
    }

  private:
    std::mt19937_64 bits_;
    std::normal_distribution<double> normal_;
};

using Judge = std::function<Outcome(const Drawn&, const Sigma&, double margin)>;

Outcome ours(const Drawn& drawn, const Sigma& sigma, double margin) {
    return judge(drawn.base, drawn.candidate, sigma, margin, trigram_of_all).outcome;
}

constexpr std::size_t trials = 20'000;

std::map<Outcome, std::size_t> outcomes(const World& world, const Judge& judged_by) {
    Worlds worlds(12345);
    std::map<Outcome, std::size_t> counts;
    for (std::size_t trial = 0; trial < trials; ++trial) {
        const Sigma sigma = worlds.sigma(world);
        ++counts[judged_by(worlds.pairs(world, world.pairs, world.planted), sigma, world.margin)];
    }
    return counts;
}

/// 1 in 1000, plus four standard deviations of the count.
constexpr std::size_t most_alarms = 38;

/// Whether a judge limits false alarms: the planted difference is either zero or exactly the
/// margin.
bool keeps_its_promise(const Judge& judged_by, World world) {
    world.planted = 0.0;
    world.margin = 1e-4; // so that "the same" cannot hide an alarm
    auto counts = outcomes(world, judged_by);
    if (counts[Outcome::worse] > most_alarms || counts[Outcome::better] > most_alarms)
        return false;
    world.margin = 0.15;
    for (const double side : {1.0, -1.0}) {
        world.planted = side * world.margin;
        counts = outcomes(world, judged_by);
        if (counts[Outcome::same] > most_alarms ||
            counts[side > 0.0 ? Outcome::better : Outcome::worse] > most_alarms)
            return false;
    }
    return true;
}

/// Whether a judge finds a clear difference, and none where there is none.
bool finds(const Judge& judged_by) {
    World world{.shared = 0.05,
                .own = 0.005,
                .planted = 0.025,
                .pairs = 4,
                .sigma_from = 32,
                .twins = true,
                .margin = 0.015};
    if (outcomes(world, judged_by)[Outcome::worse] < trials * 95 / 100)
        return false;
    world.planted = -0.025;
    if (outcomes(world, judged_by)[Outcome::better] < trials * 95 / 100)
        return false;
    world.planted = 0.0;
    world.margin = 0.03;
    return outcomes(world, judged_by)[Outcome::same] >= trials * 95 / 100;
}

TEST(Judge, FalseAlarmsAreAtMostWhatIsPromised) {
    EXPECT_TRUE(keeps_its_promise(ours, {.shared = 0.0, .own = 0.02}));   // nothing in common
    EXPECT_TRUE(keeps_its_promise(ours, {.shared = 0.02, .own = 0.005})); // much in common
    EXPECT_TRUE(keeps_its_promise(ours, {.shared = 0.0, .own = 0.02, .sigma_from = 6})); // few seeds
    EXPECT_TRUE(keeps_its_promise(ours, {.shared = 0.05, .own = 0.02, .twins = true}));  // by twins
}

TEST(Judge, FindsWhatPairsShow) {
    EXPECT_TRUE(finds(ours));
}

// Common errors of judges; one of the two tests above has to refuse each.

Outcome by(double difference, double uncertainty, double margin) {
    if (difference - uncertainty > -margin && difference + uncertainty < margin)
        return Outcome::same;
    return difference > uncertainty    ? Outcome::worse
           : difference < -uncertainty ? Outcome::better
                                       : Outcome::undecided;
}

std::vector<double> pair_differences(const Drawn& drawn) {
    std::vector<double> all;
    for (std::size_t i = 0; i < drawn.base.size(); ++i)
        all.push_back(end_of(drawn.candidate[i]).loss - end_of(drawn.base[i]).loss);
    return all;
}

double root_of(std::size_t count) {
    return std::sqrt(static_cast<double>(count));
}

double average(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double value : values)
        sum += value;
    return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double value : values)
        sum += (value - average(values)) * (value - average(values));
    return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

TEST(PlantedJudge, AVarianceThatForgetsThePairsFindsNothing) {
    const Judge unpaired = [](const Drawn& drawn, const Sigma&, double margin) {
        std::vector<double> base;
        std::vector<double> candidate;
        for (std::size_t i = 0; i < drawn.base.size(); ++i) {
            base.push_back(end_of(drawn.base[i]).loss);
            candidate.push_back(end_of(drawn.candidate[i]).loss);
        }
        const double sigma = std::hypot(deviation(base), deviation(candidate));
        return by(average(candidate) - average(base), 3.09 * sigma / root_of(base.size()), margin);
    };
    EXPECT_FALSE(finds(unpaired));
}

TEST(PlantedJudge, PairsInAnotherOrderFindNothing) {
    const Judge shifted = [](Drawn drawn, const Sigma&, double margin) {
        std::ranges::rotate(drawn.candidate, drawn.candidate.begin() + 1);
        const std::vector<double> all = pair_differences(drawn);
        return by(average(all), 4.0 * deviation(all) / root_of(all.size()), margin);
    };
    EXPECT_FALSE(finds(shifted));
}

TEST(PlantedJudge, ASigmaFromTheRunsThatAreJudgedCriesWolf) {
    const Judge own_sigma = [](const Drawn& drawn, const Sigma&, double margin) {
        const std::vector<double> all = pair_differences(drawn);
        return by(average(all), 3.09 * deviation(all) / root_of(all.size()), margin);
    };
    EXPECT_FALSE(keeps_its_promise(own_sigma, {.shared = 0.0, .own = 0.02}));
}

TEST(PlantedJudge, TheLimitOfManySeedsCriesWolfWithASigmaOfFew) {
    const Judge normal_limit = [](const Drawn& drawn, const Sigma& sigma, double margin) {
        const std::vector<double> all = pair_differences(drawn);
        return by(average(all), 3.09 * sigma.of_difference / root_of(all.size()), margin);
    };
    EXPECT_FALSE(keeps_its_promise(normal_limit, {.shared = 0.0, .own = 0.02, .sigma_from = 6}));
}

TEST(PlantedJudge, ADeviationOfRunsTakenForOneOfDifferencesCriesWolf) {
    const Judge too_small = [](const Drawn& drawn, Sigma sigma, double margin) {
        sigma.of_difference /= std::sqrt(2.0);
        const Verdict verdict = judge(drawn.base, drawn.candidate, sigma, margin, trigram_of_all);
        return by(verdict.difference, verdict.uncertainty, margin);
    };
    EXPECT_FALSE(keeps_its_promise(too_small, {.shared = 0.0, .own = 0.02}));
}

TEST(PlantedJudge, SidesMixedUpAreSeen) {
    const Judge wrong_sign = [](const Drawn& drawn, const Sigma& sigma, double margin) {
        return ours({.base = drawn.candidate, .candidate = drawn.base}, sigma, margin);
    };
    EXPECT_FALSE(finds(wrong_sign));
    // Uses "not shown to be beyond the margin" instead of "shown to be within".
    const Judge not_shown = [](const Drawn& drawn, const Sigma& sigma, double margin) {
        const Verdict verdict = judge(drawn.base, drawn.candidate, sigma, margin, trigram_of_all);
        return verdict.difference - verdict.uncertainty < margin ? Outcome::same : Outcome::worse;
    };
    EXPECT_FALSE(keeps_its_promise(not_shown, {.shared = 0.0, .own = 0.02}));
    // Checks only one side of the margin.
    const Judge one_side = [](const Drawn& drawn, const Sigma& sigma, double margin) {
        const Verdict verdict = judge(drawn.base, drawn.candidate, sigma, margin, trigram_of_all);
        return verdict.difference + verdict.uncertainty < margin ? Outcome::same : Outcome::worse;
    };
    EXPECT_FALSE(keeps_its_promise(one_side, {.shared = 0.0, .own = 0.02}));
}

TEST(PlantedJudge, WhoeverStopsAsSoonAsItIsDecidedCriesWolf) {
    const World world{.shared = 0.0, .own = 0.02, .pairs = 40};
    const double sigma = std::sqrt(2.0) * world.own;
    Worlds drawing(77);
    std::size_t alarms = 0;
    std::size_t at_the_end = 0;
    for (std::size_t trial = 0; trial < trials / 4; ++trial) {
        const std::vector<double> all = pair_differences(drawing.pairs(world, world.pairs, 0.0));
        bool alarm = false;
        double sum = 0.0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            sum += all[i];
            alarm = alarm || sum / std::sqrt(static_cast<double>(i + 1)) > 3.09 * sigma;
        }
        alarms += alarm ? 1U : 0U;
        at_the_end += sum / root_of(all.size()) > 3.09 * sigma ? 1U : 0U;
    }
    EXPECT_GT(alarms, 3 * most_alarms / 4);
    EXPECT_LT(at_the_end, most_alarms / 2);
}

const Sigma known_sigma{.of_difference = 0.01, .from = 100'000, .how = "100000 seeds of the base line"};

Verdict of_differences(const std::vector<double>& differences, double margin = 0.02) {
    std::vector<double> candidate;
    for (const double difference : differences)
        candidate.push_back(2.0 + difference);
    return judge(runs_to("adamw", std::vector<double>(differences.size(), 2.0)),
                 runs_to("scape", candidate), known_sigma, margin, trigram_of_all);
}

TEST(Judge, SaysWhichOfTheFourItIs) {
    // Four pairs: 3.09 * 0.01 / 2.
    const Verdict same = of_differences({0.001, 0.003, -0.001, 0.001});
    EXPECT_EQ(same.outcome, Outcome::same);
    EXPECT_NEAR(same.uncertainty, 0.01545, 1e-5);
    EXPECT_NEAR(same.z, 0.2, 1e-9);
    EXPECT_EQ(of_differences({0.03, 0.04, 0.03, 0.04}).outcome, Outcome::worse);
    EXPECT_EQ(of_differences({-0.03, -0.04, -0.03, -0.04}).outcome, Outcome::better);
    // Certainly worse and still within the margin, as the margin intends.
    EXPECT_EQ(of_differences({0.016, 0.018, 0.016, 0.016}, 0.05).outcome, Outcome::same);
    const Verdict undecided = of_differences({0.01, 0.01, 0.01, 0.01}, 0.015);
    EXPECT_EQ(undecided.outcome, Outcome::undecided);
    EXPECT_EQ(undecided.needs, 10U); // (3.09 * 0.01 / 0.01)^2 = 9.5
    EXPECT_EQ(of_differences(std::vector<double>(undecided.needs, 0.01), 0.015).outcome, Outcome::worse);
    EXPECT_EQ(of_differences(std::vector<double>(undecided.needs - 1, 0.01), 0.015).outcome,
              Outcome::undecided);
}

TEST(Judge, TellsItInALine) {
    EXPECT_EQ(text(of_differences({0.03, 0.04, 0.03, 0.04})),
              "WORSE by 0.035 ± 0.015 nats (4 pairs, margin 0.02); needs 1.01 times the steps");
    EXPECT_THAT(text(of_differences({0.01, 0.01, 0.01, 0.01})),
                HasSubstr("needs about 10 seeds: run so many anew"));
    EXPECT_THAT(text(of_differences({0.001, 0.0, 0.0, 0.0})),
                HasSubstr("SAME: the difference is 0.000 ± 0.015"));
}

TEST(Judge, MistrustsWhatDoesNotBeatTheTrigram) {
    for (const double bad : {2.5, 3.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
        const auto good = runs_to("adamw", {2.0, 2.0});
        const Verdict candidate = judge(good, runs_to("scape", {2.0, bad}), known_sigma, 0.02, 2.5);
        EXPECT_EQ(candidate.outcome, Outcome::mistrusted) << bad;
        EXPECT_THAT(text(candidate), HasSubstr("MISTRUSTED: seed 2 of 'scape' ends at "));
        const Verdict base = judge(runs_to("adamw", {bad, 2.0}), good, known_sigma, 0.02, 2.5);
        EXPECT_EQ(base.outcome, Outcome::mistrusted) << bad;
        EXPECT_THAT(base.why, HasSubstr("seed 1 of 'adamw'"));
    }
}

TEST(Judge, MistrustsASigmaThatThePairsRefute) {
    const Verdict verdict = of_differences({0.2, -0.2, 0.2, -0.2});
    EXPECT_EQ(verdict.outcome, Outcome::mistrusted);
    EXPECT_THAT(verdict.why, HasSubstr("does not hold for this candidate"));
    EXPECT_NE(of_differences({0.02, -0.02, 0.01, -0.01}).outcome, Outcome::mistrusted);
}

template <class Call>
std::string refusal_of(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(Judge, RefusesWhatIsNoPair) {
    const auto judged = [](std::vector<Curve> base, std::vector<Curve> candidate) {
        return refusal_of([&] { (void)judge(base, candidate, known_sigma, 0.02, 2.5); });
    };
    auto other_seed = runs_to("scape", {2.0, 2.0});
    other_seed[1].seed = 7;
    EXPECT_EQ(judged(runs_to("adamw", {2.0, 2.0}), other_seed),
              "seed 7 of 'scape' has no run of the base line; run both with the same seeds");
    auto twice = runs_to("scape", {2.0, 2.0});
    twice[1].seed = 1;
    EXPECT_THAT(judged(runs_to("adamw", {2.0, 2.0}), twice), HasSubstr("seed 1 of 'scape' is there twice"));
    EXPECT_THAT(judged(runs_to("adamw", {2.0, 2.0}), runs_to("scape", {2.0})),
                HasSubstr("2 runs and the candidate 1"));
    EXPECT_THAT(judged({}, {}), HasSubstr("no run of the candidate"));
    auto longer = runs_to("scape", {2.0});
    longer[0].points[1].step = 200;
    EXPECT_THAT(judged(runs_to("adamw", {2.0}), longer), HasSubstr("compare runs of one length"));
    const auto one = runs_to("adamw", {2.0});
    EXPECT_THAT(refusal_of([&] { (void)judge(one, one, known_sigma, 0.0, 2.5); }),
                HasSubstr("the margin is 0"));
    EXPECT_THAT(refusal_of([&] { (void)judge(one, one, Sigma{}, 0.1, 2.5); }),
                HasSubstr("measure it on the base line"));
}

TEST(Sigma, IsOfDifferencesAndSaysFromHowMany) {
    const Sigma sigma = sigma_of_seeds(runs_to("adamw", {2.0, 2.1, 2.2}));
    EXPECT_NEAR(sigma.of_difference, std::sqrt(2.0) * 0.1, 1e-12);
    EXPECT_EQ(sigma.how, "3 seeds of the base line");
    const Sigma twins =
        sigma_of_twins(runs_to("adamw", {2.0, 2.1, 2.2}), runs_to("adamw twin", {2.1, 2.1, 2.1}));
    EXPECT_NEAR(twins.of_difference, 0.1, 1e-12);
    EXPECT_THAT(refusal_of([] { (void)sigma_of_seeds(runs_to("adamw", {2.0})); }), HasSubstr("at least 2"));
    EXPECT_THAT(refusal_of([] {
                    (void)sigma_of_seeds(runs_to("adamw", {2.0, 2.0}));
                }),
                HasSubstr("different losses"));
}

} // namespace
} // namespace truestep::training
