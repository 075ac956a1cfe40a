// Trains GASLoC's candidates.
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/gate/processes.hpp>
#include <truestep/training/convergence.hpp>

#include "parts.hpp"
#include "planted/numbers.hpp"
#include "planted/planted.hpp"
#include "workers.hpp"

namespace truestep::training::of_gasloc {
namespace {

using testing::HasSubstr;

const std::shared_ptr<const gate::Group>& threads() {
    static const auto group = gate::make_thread_group(std::chrono::seconds(60));
    return group;
}

const gate::Learning& learning() {
    static const gate::Learning made = properties::gasloc::system_of_properties().learning.value();
    return made;
}

std::shared_ptr<const gate::Implementation> with(int known_bug) {
    return properties::gasloc::planted(known_bug, threads());
}

std::shared_ptr<const gate::Implementation> host(gate::Unsupported unsupported = {}) {
    return std::make_shared<properties::gasloc::Workers>(
        "host", properties::gasloc::workers(), threads(),
        gate::Placement{.unsupported = std::move(unsupported)});
}

/// 8.5 rounds with a restart in the middle.
ConvergeSettings short_one(const std::string& setting = "") {
    ConvergeSettings settings = usual_convergence(learning(), setting);
    settings.plan.steps = 17;
    settings.plan.warm_up = 2;
    settings.plan.measure_every = 1;
    settings.plan.measured_windows = 6;
    settings.restart_at = 9;
    return settings;
}

class ShortRounds : public testing::Test {
  protected:
    [[nodiscard]] LearnedRun run(const gate::Implementation& implementation, bool turned = false) const {
        LearnedRun run = learn(settings_, text_, implementation, 3, turned);
        EXPECT_EQ(run.ended, "") << implementation.name();
        return run;
    }
    /// The first step whose losses differ; the number of points if none does.
    [[nodiscard]] std::size_t parts(const gate::Implementation& implementation) const {
        const std::vector<Curve::Point> expected = run(*learning().base).curve.points;
        const std::vector<Curve::Point> found = run(implementation).curve.points;
        EXPECT_EQ(found.size(), expected.size());
        std::size_t step = 0;
        while (step < expected.size() && found[step].loss == expected[step].loss)
            ++step;
        return step;
    }

    ConvergeSettings settings_ = short_one();
    Text text_ = text_named(settings_.text);
};

TEST_F(ShortRounds, WhatIsRightHasTheReferencesBits) {
    const LearnedRun right = run(*learning().base);
    ASSERT_EQ(right.curve.points.size(), 18U);
    EXPECT_LT(right.curve.points.back().loss, right.curve.points.front().loss);
    for (const auto& one : {host(), with(0), host({{"restart", "it has no checkpoints"}})}) {
        EXPECT_EQ(parts(*one), 18U) << one->name();
        EXPECT_EQ(run(*one).digest, right.digest) << one->name();
    }
}

// A round has two steps, and workers are measured at its end. Each of these bugs needs a part of a
// training: several rounds and steps, workers that skip steps, decay, a restart before round 5.
TEST_F(ShortRounds, WhatATrainingHasIsThere) {
    using namespace properties::gasloc;
    EXPECT_EQ(parts(*with(drift_sign)), 2U);
    EXPECT_EQ(parts(*with(mix_dropped)), 2U);
    EXPECT_EQ(parts(*with(eta_twice)), 2U);
    EXPECT_EQ(parts(*with(alpha_swapped)), 2U);
    EXPECT_EQ(parts(*with(decay_forgotten)), 2U);
    EXPECT_EQ(parts(*with(first_rate)), 2U);
    EXPECT_LT(parts(*with(bias_by_round)), 18U);
    EXPECT_LT(parts(*with(greatest_steps)), 18U);
    EXPECT_LT(parts(*with(stale_peer)), 18U);
    for (const int saved :
         {before_not_in_checkpoint, seed_not_restored, round_not_restored, moments_not_in_checkpoint}) {
        EXPECT_GE(parts(*with(saved)), 9U) << saved;
        EXPECT_LT(parts(*with(saved)), 18U) << saved;
    }
}

TEST_F(ShortRounds, EdgesHaveWeightsWhereAMistakeNeedsThem) {
    using namespace properties::gasloc;
    EXPECT_EQ(parts(*with(weights_ignored)), 18U);
    const std::vector<gate::KnownBug> all = known_bugs();
    const auto setting_of = [&](int number) {
        return learning().setting_of(all[static_cast<std::size_t>(number) - 1].shows);
    };
    EXPECT_EQ(setting_of(eta_twice), "");
    settings_ = short_one(setting_of(weights_ignored));
    EXPECT_NE(settings_.setting.name, "");
    EXPECT_EQ(parts(*host()), 18U);
    for (const int known_bug : {weights_ignored, in_place, mean_of_neighbours, as_they_come}) {
        EXPECT_EQ(setting_of(known_bug), settings_.setting.name) << known_bug;
        EXPECT_LT(parts(*with(known_bug)), 18U) << known_bug;
    }
}

TEST_F(ShortRounds, ATwinHasTheSameDataAndOtherBits) {
    const std::vector<Curve::Point> base = run(*learning().base).curve.points;
    const std::vector<Curve::Point> twin = run(*learning().base, true).curve.points;
    EXPECT_EQ(base.front().loss, twin.front().loss);
    EXPECT_NE(base.back().loss, twin.back().loss);
    EXPECT_NEAR(base.back().loss, twin.back().loss, 0.1);
}

TEST_F(ShortRounds, AWorkerThatEndsSaysWhy) {
    settings_.plan.learning_rate = 3e38;
    settings_.plan.warm_up = 0;
    const LearnedRun found = learn(settings_, text_, *host(), 3);
    EXPECT_THAT(found.ended, HasSubstr("ended in round 1: halted: after round 1"));
    EXPECT_TRUE(std::isnan(found.curve.points.back().loss));
}

/// The whole judgement at a small size.
TEST(GaslocGate, TakesWhatIsRightForTheSameAndSeesWhatTrainsWorse) {
    ConvergeSettings settings = usual_convergence(learning());
    settings.pairs = 3;
    settings.base_pairs = 10;
    Convergence convergence(settings, gate::usual_processes(), 120.0);
    convergence.run_base();
    const auto judged = convergence.judge({host(), with(properties::gasloc::drift_sign)});
    EXPECT_EQ(judged[0].verdict.outcome, Outcome::same) << text(judged[0], "reference");
    EXPECT_TRUE(judged[0].same_bits);
    EXPECT_TRUE(judged[0].same_states);
    EXPECT_EQ(judged[1].verdict.outcome, Outcome::mistrusted) << text(judged[1], "reference");
}

} // namespace
} // namespace truestep::training::of_gasloc
