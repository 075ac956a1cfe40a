// Tests which steps and segments of a recorded run the search for a known bug tries.
#include "replay.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/properties/scape/planted/diagnosis.hpp>
#include <truestep/verify/scape/record.hpp>

#include "support.hpp"

namespace truestep::properties::scape::planted {
namespace {

namespace support = verify::scape::support;
using problem::Index;
using verify::scape::TraceReader;

class ReplayTest : public testing::Test {
  protected:
    ReplayTest() : path_(folder_ / "trace.safetensors") {}

    void record(problem::Layout layout, int workers, Index steps,
                const problem::HyperParameters& settings = {},
                std::vector<std::pair<double, double>> more_learning_rates = {}) const {
        verify::scape::record(path_,
                              {problem::make_problem(problem::Algorithm::scape, workers, std::move(layout),
                                                     problem::PartitionRule::by_shard, settings),
                               problem::DensitySchedule::constant(0.25),
                               steps,
                               0.01,
                               0.01,
                               1,
                               problem::DataClass::normal,
                               {},
                               false,
                               "a test",
                               [](Index, Index) {},
                               trace::Replicas::none,
                               {},
                               0,
                               verify::scape::Arithmetic::fp32,
                               std::move(more_learning_rates)});
    }

    [[nodiscard]] std::vector<Replay> replays(Index step, std::optional<Index> index = {}) const {
        return choose_replays(TraceReader(path_), {step, index}).replays;
    }

    /// Clears the recorded residuals of one step.
    void clear_residuals(Index step, int workers) const {
        support::FileImage image(path_);
        for (int rank = 0; rank < workers; ++rank)
            std::ranges::fill(
                std::get<std::vector<float>>(
                    image.at(tensor_name(kind_of(verify::scape::Result::residual), step, rank)).data),
                0.0F);
        image.save(path_);
    }

    support::TemporaryFolder folder_;
    std::filesystem::path path_;
};

TEST_F(ReplayTest, AShortRunIsTriedFromItsStartAndThenFromTheStateBeforeTheStep) {
    record(problem::Layout({{"a", 40, false}}), 2, 4);
    ASSERT_EQ(replays(1).size(), 1U);
    const auto all = replays(3);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].begin, 0);
    EXPECT_EQ(all[1].begin, 2);
    for (const Replay& replay : all) {
        EXPECT_EQ(replay.end, 4) << "the mask that is used next tells what was made";
        EXPECT_TRUE(replay.whole);
    }
    EXPECT_EQ(told(TraceReader(path_), all[0]), "");
}

TEST_F(ReplayTest, ALongRunIsTriedFromARecordedStateAStepOrTwoBefore) {
    record(problem::Layout({{"a", 8, false}}), 4, 800);
    const auto all = replays(790);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].begin, 787) << "two steps of history";
    EXPECT_EQ(all[1].begin, 789);
    support::FileImage image(path_);
    image.drop("step/0003/residual");
    image.save(path_);
    const ReplayChoice choice = choose_replays(TraceReader(path_), {790, {}});
    EXPECT_TRUE(choice.replays.empty());
    EXPECT_TRUE(support::contains(choice.why, "or the state after every step")) << choice.why;
}

TEST_F(ReplayTest, OfALargeRunTheSegmentThatGoesWrongWithItsNeighbours) {
    // The first of four ranks has e, a and a quarter of b.
    record(problem::Layout(
               {{"e", 4'000, false}, {"a", 6'000, false}, {"b", 480'000, false}, {"c", 20'000, false}}),
           4, 1);
    const auto in_a = replays(1, 9'999);
    ASSERT_EQ(in_a.size(), 1U);
    EXPECT_FALSE(in_a[0].whole);
    EXPECT_FALSE(in_a[0].in_segment);
    EXPECT_EQ(in_a[0].window, (trace::Window{0, 10'000})) << "b is too large to go with it";
    const auto in_b = replays(1, 10'000);
    ASSERT_EQ(in_b.size(), 2U);
    EXPECT_EQ(in_b[0].window, (trace::Window{10'000, 72'500})) << "first a part, which takes no time";
    EXPECT_TRUE(in_b[0].in_segment);
    EXPECT_EQ(in_b[1].window, (trace::Window{10'000, 127'500})) << "one that is larger goes alone";
    EXPECT_FALSE(in_b[1].in_segment);
}

TEST_F(ReplayTest, OfASegmentThatIsTooLargeItselfAPart) {
    record(problem::Layout({{"a", 2'100'000, false}}), 1, 1);
    const auto all = replays(1, 2'099'999);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_TRUE(all[0].in_segment);
    EXPECT_EQ(all[0].window, (trace::Window{1'850'000, 2'100'000}));
    EXPECT_EQ(all[0].end, 1);
}

TEST_F(ReplayTest, AMistakeMadeOnceIsNamedWhereTheRunBeforeItWasRight) {
    problem::HyperParameters clips;
    clips.clip_norm = 0.5;
    record(problem::Layout({{"a", 40, false}}), 2, 5, clips);
    clear_residuals(4, 2);
    const auto lines = what_fits(path_, {4, 0}, gate::Gradients::recorded);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].rfind("matches known bug 7: residual cleared everywhere (", 0), 0U) << lines[0];
    EXPECT_FALSE(support::contains(lines[0], "contradicts")) << lines[0];
    EXPECT_EQ(lines[1], "tried from the recorded state before step 4");
}

TEST_F(ReplayTest, EachParameterGroupIsTriedWithItsOwnRateAndDecay) {
    problem::HyperParameters settings;
    settings.clip_norm = 0.5;
    settings.more_weight_decays = {0.0};
    record(problem::Layout({{"a", 40}, {"b", 20, true, 1}}), 2, 5, settings, {{0.03, 0.5}});
    clear_residuals(4, 2);
    const auto lines = what_fits(path_, {4, 0}, gate::Gradients::recorded);
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines[0].rfind("matches known bug 7: residual cleared everywhere (", 0), 0U) << lines[0];
}

} // namespace
} // namespace truestep::properties::scape::planted
