// Tests which known bugs change a short training, and how its loss curves are judged.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/gate/processes.hpp>
#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/planted/bugs_between_steps.hpp>
#include <truestep/properties/scape/planted/implementation.hpp>
#include <truestep/properties/scape/system.hpp>
#include <truestep/training/convergence.hpp>

namespace truestep::training {
namespace {

using properties::scape::Implementation;
using properties::scape::planted::Bug;
using properties::scape::planted::BugBetweenSteps;
using properties::scape::planted::bugs_between_steps;
using properties::scape::planted::StateChange;
using properties::scape::planted::with_bug_between_steps;
using testing::HasSubstr;

const gate::Learning& learning() {
    static const gate::Learning made = properties::scape::system_of_properties().learning.value();
    return made;
}

const std::shared_ptr<const gate::Group>& threads() {
    static const auto group = gate::make_thread_group(std::chrono::seconds(60));
    return group;
}

std::shared_ptr<const Implementation> with(Bug bug) {
    return properties::scape::planted::implementation(static_cast<int>(bug), threads());
}

std::shared_ptr<const Implementation> named(const std::string& name) {
    for (const auto& one : properties::scape::all_implementations(threads()))
        if (one->name() == name)
            return one;
    throw std::logic_error("no " + name);
}

/// A few steps with a restart in the middle.
ConvergeSettings short_one(const std::string& setting = "") {
    ConvergeSettings settings = usual_convergence(learning(), setting);
    settings.plan.steps = 16;
    settings.plan.warm_up = 2;
    settings.plan.measure_every = 1;
    settings.plan.measured_windows = 6;
    settings.plan.density_warm_up = 3;
    settings.restart_at = 9;
    return settings;
}

class ShortTraining : public testing::Test {
  protected:
    [[nodiscard]] std::vector<double> losses(const Implementation& implementation, bool turned = false) {
        const LearnedRun run = learn(settings_, text_, implementation, 3, turned);
        EXPECT_EQ(run.ended, "") << implementation.name();
        std::vector<double> all;
        for (const Curve::Point& point : run.curve.points)
            all.push_back(point.loss);
        return all;
    }
    /// The first step whose losses differ; the number of points if none does.
    [[nodiscard]] std::size_t parts(const Implementation& implementation) {
        const std::vector<double> expected = losses(*properties::scape::reference_implementation());
        const std::vector<double> found = losses(implementation);
        EXPECT_EQ(found.size(), expected.size());
        std::size_t step = 0;
        while (step < expected.size() && found[step] == expected[step])
            ++step;
        return step;
    }

    ConvergeSettings settings_ = short_one();
    Text text_ = text_named(settings_.text);
};

TEST_F(ShortTraining, WhatIsRightHasTheReferencesBits) {
    EXPECT_EQ(parts(*named("host")), 17U);
    EXPECT_EQ(parts(*with(Bug::none)), 17U);
    EXPECT_EQ(parts(*named("cuda-blocks")), 17U);
    EXPECT_LT(losses(*named("host")).back(), losses(*named("host")).front());
}

// Each of these bugs needs a part of a training: parts, a restart, a density that falls, clipping,
// decay, three ranks.
TEST_F(ShortTraining, WhatATrainingHasIsThere) {
    EXPECT_EQ(parts(*with(Bug::only_last_part)), 1U);
    EXPECT_EQ(parts(*with(Bug::checkpoint_without_residual)), 9U);
    EXPECT_EQ(parts(*with(Bug::counter_not_saved)), 9U);
    EXPECT_EQ(parts(*with(Bug::density_one_step_off)), 2U);
    EXPECT_LT(parts(*with(Bug::clip_result_dropped)), 17U);
    EXPECT_EQ(parts(*with(Bug::decay_after_update)), 1U);
    EXPECT_EQ(parts(*with(Bug::reverse_rank_order)), 1U);
    EXPECT_LT(parts(*with(Bug::last_bucket_in_all)), 17U);
}

// If no state differs, the known bug had no effect. A state may differ although no loss does.
TEST_F(ShortTraining, TellsAMistakeWithoutAnOccasionFromOneThatDoesNotShow) {
    const auto digest = [&](const Implementation& implementation) {
        return learn(settings_, text_, implementation, 3).digest;
    };
    const std::uint64_t right = digest(*properties::scape::reference_implementation());
    for (const auto& same : {named("host"), with(Bug::none), named("cuda-blocks"), with(Bug::nan_passed_on),
                             with(Bug::residual_lost_when_shrinking), with(Bug::groups_forgotten)})
        EXPECT_EQ(digest(*same), right) << same->name();
    EXPECT_NE(digest(*with(Bug::reverse_rank_order)), right);
    EXPECT_NE(digest(*with(Bug::checkpoint_without_residual)), right);
}

// Bugs that need groups.
TEST_F(ShortTraining, InGroupsTheMistakesOfGroupsHaveAnOccasion) {
    settings_ = short_one("in groups 2,3,1");
    EXPECT_EQ(parts(*with(Bug::none)), 17U);
    EXPECT_EQ(parts(*named("host")), 17U);
    for (const Bug bug : {Bug::groups_forgotten, Bug::mean_of_means, Bug::groups_backwards,
                          Bug::handler_first, Bug::boundary_off_by_one})
        EXPECT_LT(parts(*with(bug)), 17U) << static_cast<int>(bug);
}

TEST_F(ShortTraining, ATwinHasTheSameDataAndOtherBits) {
    const std::vector<double> base = losses(*properties::scape::reference_implementation());
    const std::vector<double> twin = losses(*properties::scape::reference_implementation(), true);
    EXPECT_EQ(base[0], twin[0]);
    EXPECT_NE(base[8], twin[8]);
    EXPECT_NEAR(base[16], twin[16], 0.05);
}

class Fails final : public Implementation {
  public:
    std::string name() const override { return "fails"; }
    std::string communicator() const override { return "-"; }
    verify::LevelKind level() const override { return verify::LevelKind::exact; }
    bool takes(int /*workers*/) const override { return true; }
    properties::scape::RunRecording run(const properties::scape::Scenario& /*scenario*/) const override {
        return {};
    }
};

TEST_F(ShortTraining, WhatDoesNotComeToItsEndSaysWhy) {
    const LearnedRun run = learn(settings_, text_, Fails(), 1);
    EXPECT_THAT(run.ended, HasSubstr("fails takes gradients that are known beforehand alone"));
    ASSERT_EQ(run.curve.points.size(), 17U);
    EXPECT_TRUE(std::isnan(run.curve.points.back().loss));
}

// Every step is correct by itself; the change happens between two steps.
TEST_F(ShortTraining, TamperingChangesNoBitOfAStep) {
    settings_.plan.density_warm_up = 0;
    for (const BugBetweenSteps& one : bugs_between_steps()) {
        // The state before step 2 is changed; its masks or residuals have effects later.
        EXPECT_GE(parts(*with_bug_between_steps(one, threads())), 2U) << one.name;
    }
    EXPECT_EQ(parts(*with_bug_between_steps({StateChange::none, "not-tampered", ""}, threads())), 17U);
}

/// The whole judgement at a small size.
class Gate : public testing::Test {
  protected:
    static Convergence& convergence() {
        static Convergence one = [] {
            ConvergeSettings settings = usual_convergence(learning());
            settings.pairs = 3;
            settings.base_pairs = 10;
            Convergence made(settings, gate::usual_processes(), 120.0);
            made.run_base();
            return made;
        }();
        return one;
    }
};

TEST_F(Gate, TakesWhatIsRightForTheSame) {
    for (const Convergence::ImplementationVerdict& one :
         convergence().judge({named("host"), with(Bug::none)})) {
        EXPECT_EQ(one.verdict.outcome, Outcome::same) << text(one, "reference");
        EXPECT_TRUE(one.same_bits);
        EXPECT_TRUE(one.same_states);
        EXPECT_EQ(one.verdict.difference, 0.0);
    }
    // Sums in another order have other bits, but the same loss curve.
    const Convergence::ImplementationVerdict other =
        convergence().judge({with(Bug::reverse_rank_order)}).front();
    EXPECT_FALSE(other.same_bits);
    EXPECT_FALSE(other.same_states);
    EXPECT_EQ(other.verdict.outcome, Outcome::same) << text(other, "reference");
}

/// Trains as the reference does, except that it ends the process of one seed.
class DiesOnce final : public Implementation {
  public:
    explicit DiesOnce(std::vector<float> start) : start_(std::move(start)) {}

    std::string name() const override { return "dies-once"; }
    std::string communicator() const override { return reference().communicator(); }
    verify::LevelKind level() const override { return reference().level(); }
    bool takes(int workers) const override { return reference().takes(workers); }
    properties::scape::RunRecording run(const properties::scape::Scenario& scenario) const override {
        return reference().run(scenario);
    }
    void train(const properties::scape::Setup& setup,
               properties::scape::GradientSource& live) const override {
        if (setup.parameters == start_)
            std::_Exit(7);
        reference().train(setup, live);
    }

  private:
    static const Implementation& reference() {
        static const auto made = properties::scape::reference_implementation();
        return *made;
    }
    std::vector<float> start_;
};

TEST_F(Gate, ARunWhoseProcessDiesIsToldWithTheOthers) {
    const ConvergeSettings& settings = convergence().settings();
    const auto candidate = std::make_shared<DiesOnce>(initial_parameters(settings.plan.shape, 2));
    const Convergence::ImplementationVerdict judged = convergence().judge({candidate}).front();
    EXPECT_THAT(judged.ended, HasSubstr("seed 2 ended: ended its process with status 7"));
    EXPECT_EQ(judged.verdict.outcome, Outcome::mistrusted) << text(judged, "reference");
}

TEST_F(Gate, SeesWhatTrainsWorse) {
    gate::Implementations candidates{with(Bug::residual_never_added), with(Bug::update_with_wrong_sign)};
    for (const BugBetweenSteps& one : bugs_between_steps())
        candidates.push_back(with_bug_between_steps(one, threads()));
    for (const Convergence::ImplementationVerdict& one : convergence().judge(candidates)) {
        EXPECT_THAT(one.verdict.outcome, testing::AnyOf(Outcome::worse, Outcome::mistrusted))
            << text(one, "reference");
        EXPECT_FALSE(one.verdict.difference <= 0.0) << text(one, "reference");
    }
}

} // namespace
} // namespace truestep::training
