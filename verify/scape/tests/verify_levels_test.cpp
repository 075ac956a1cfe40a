// Tests verification at EXACT, REL and BF16, with parameter groups and nearly equal scores.
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/scape/record.hpp>

#include "verify_trace_support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::element;
using support::error_of;
using support::FileImage;
using support::flip_mask_bit;
using support::mask_bit;
using support::mismatched;
using support::row;
using support::set_element;

// Levels.

TEST_F(VerifyTraceTest, OneUlpFailsAtExactAndPassesAtRel) {
    for (const char* tensor :
         {"step/0005/parameters", "step/0003/residual/rank2", "step/0002/local/rank1"}) {
        record(path_, support::small_run());
        Index coordinate = 80;
        while (element<float>(path_, tensor, coordinate) == 0.0F)
            --coordinate;
        set_element(path_, tensor, coordinate, next_up(element<float>(path_, tensor, coordinate)));
        EXPECT_EQ(verify_from(path_, ReferenceStart::recorded, Level::exact()).status, Status::failed)
            << tensor;
        const TraceVerdict rel = verify_from(path_, ReferenceStart::recorded, Level::rel());
        EXPECT_EQ(rel.status, Status::passed) << text_report(rel);
    }
}

TEST_F(VerifyTraceTest, RelShowsHowMuchOfTheLimitIsUsed) {
    record(path_, support::small_run());
    const TraceVerdict rel = verify_from(path_, ReferenceStart::recorded, Level::rel());
    for (const char* result : {"local", "residual", "first_moment", "parameters"}) {
        EXPECT_GT(row(rel, result).share_of_limit, 0.01) << result;
        EXPECT_LE(row(rel, result).share_of_limit, 0.5)
            << result << ": the reference's own error is half of it";
    }
    EXPECT_EQ(row(verify_from(path_, ReferenceStart::recorded), "parameters").share_of_limit, 0.0);
}

TEST_F(VerifyTraceTest, AValueBeyondTheBoundFailsAtRel) {
    for (const char* tensor :
         {"step/0003/parameters", "step/0003/first_moment", "step/0003/residual/rank1"}) {
        record(path_, support::small_run());
        Index coordinate = 80;
        while (element<float>(path_, tensor, coordinate) == 0.0F)
            --coordinate;
        const auto value = element<float>(path_, tensor, coordinate);
        set_element(path_, tensor, coordinate, value * 1.001F);
        const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded, Level::rel());
        EXPECT_EQ(verdict.status, Status::failed) << tensor;
        EXPECT_EQ(verdict.first.value().index, coordinate) << tensor;
    }
}

TEST_F(VerifyTraceTest, ANanFailsAtRel) {
    record(path_, support::small_run());
    set_element(path_, "step/0005/parameters", 11, nan(0.0F));
    expect_first(verify_from(path_, ReferenceStart::recorded, Level::rel()),
                 {5, Phase::update, "parameters", all_ranks, 11, "wq", 11});
}

TEST_F(VerifyTraceTest, ALevelThatCannotBeHadIsRefused) {
    record(path_, support::small_run());
    change([](FileImage& image) {
        image.replace_in_config(R"("decay_order":"first")", R"("decay_order":"together")");
    });
    const std::string error = error_of([&] { static_cast<void>(verify_trace(path_, {})); });
    EXPECT_TRUE(contains(error, path_.string() + ": level EXACT is not available")) << error;
    EXPECT_TRUE(contains(error, "--level rel")) << error;
    // The same mathematics, other roundings.
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded, Level::rel()).status, Status::passed);
}

TEST_F(VerifyTraceTest, FromRecordedIsRefusedWhereStatesAreMissing) {
    for (const char* name :
         {"step/0003/parameters", "step/0005/first_moment", "step/0001/residual/rank2"}) {
        record(path_, support::small_run());
        change([&](FileImage& image) { image.drop(name); });
        const std::string error =
            error_of([&] { static_cast<void>(verify_from(path_, ReferenceStart::recorded)); });
        EXPECT_TRUE(contains(error, "--from recorded is not available")) << error;
        EXPECT_TRUE(contains(error, "use --from start")) << error;
        EXPECT_EQ(verify_from(path_, ReferenceStart::start).status, Status::passed);
    }
}

TEST_F(VerifyTraceTest, TheWordsForFromAreReadBack) {
    EXPECT_EQ(parse_from("recorded"), ReferenceStart::recorded);
    EXPECT_EQ(parse_from("start"), ReferenceStart::start);
    EXPECT_EQ(name(ReferenceStart::recorded), "recorded");
    EXPECT_EQ(name(ReferenceStart::start), "start");
    for (const char* word : {"", "Start", "begin"})
        EXPECT_TRUE(
            contains(error_of([&] { static_cast<void>(parse_from(word)); }), "must be recorded or start"));
}

// Parameter groups: each with its own learning rate and weight decay.

TEST_F(VerifyTraceTest, EachParameterGroupHasItsOwnRateAndDecay) {
    for (const auto algorithm : {problem::Algorithm::scape, problem::Algorithm::adams}) {
        RecordOptions options = support::small_run(algorithm);
        options.problem.layout = with_param_groups(options.problem.layout, "0,1,0");
        options.problem.settings.more_weight_decays = {0.0};
        options.more_learning_rates = {{0.03, 0.5}};
        record(path_, options);
        for (const Level& level : {Level::exact(), Level::rel(), Level::bf16()})
            for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start}) {
                if (level.kind == LevelKind::bf16 && from == ReferenceStart::start)
                    continue;
                const TraceVerdict verdict = verify_from(path_, from, level);
                EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
                EXPECT_TRUE(contains(text_report(verdict), "3 tensors of 2 parameter groups"));
            }
        // The rates, or the decay, of one group used for both, as by a recorder that knows only
        // one. The second group is "norm", from coordinate 30 on.
        const Place first{1, Phase::update, "parameters", all_ranks, 30, "norm", 0};
        FileImage image(path_);
        auto& rates = std::get<std::vector<double>>(image.at("learning_rate").data);
        for (std::size_t step = 0; step < 5; ++step)
            rates[2 * step + 1] = rates[2 * step];
        image.save(path_);
        for (const Level& level : {Level::exact(), Level::rel(), Level::bf16()})
            expect_first(verify_from(path_, ReferenceStart::recorded, level), first);
        record(path_, options);
        change([](FileImage& changed) { changed.replace_in_config("[0.1,0.0]", "[0.1,0.1]"); });
        for (const Level& level : {Level::exact(), Level::rel()})
            expect_first(verify_from(path_, ReferenceStart::recorded, level), first);
    }
}

// Masks at REL: two scores that rounding cannot distinguish. One worker, one segment of nine
// coordinates, one of which is taken; coordinates 2 and 5 are nearly equal and by far the greatest.

class NearTieTest : public VerifyTraceTest {
  protected:
    static constexpr Index greater = 5;
    static constexpr Index lesser = 2;

    static RecordOptions options(float lesser_value) {
        RecordOptions run{problem::make_problem(problem::Algorithm::scape, 3,
                                                problem::Layout({{"wq", 9, false}}),
                                                problem::PartitionRule::by_tensor, {}),
                          problem::DensitySchedule::constant(0.12),
                          4,
                          0.01,
                          0.01,
                          7,
                          DataClass::normal,
                          {},
                          true,
                          "a test"};
        // Rank 1 holds the middle of the vector and so owns the tensor.
        // Two steps apart, because times 0.1 one could be lost.
        run.injections = {{1, 1, greater, next_up(next_up(60.0F))}, {1, 1, lesser, lesser_value}};
        return run;
    }

    /// A right run, except that step `step` uses the lesser coordinate's mask.
    void record_with_the_lesser_at(Index step, float lesser_value) const {
        support::record_with(path_, options(lesser_value), [&](Index now, verify::scape::Run<float>& run) {
            if (now != step)
                return;
            auto state = run.state();
            state.S = Coordinates{lesser};
            run.restore(state);
        });
        if (step > 1)
            change([&](FileImage& image) {
                image.at(tensor_name(kind_of(Result::next_mask), step - 1, 0)).data =
                    to_bits(Coordinates{lesser}, 9);
            });
        EXPECT_TRUE(mask_bit(path_, tensor_name(kind_of(Result::mask), step, 0), lesser));
        EXPECT_FALSE(mask_bit(path_, tensor_name(kind_of(Result::mask), step, 0), greater));
    }
};

TEST_F(NearTieTest, TheGreaterIsTakenWhereNothingIsChanged) {
    record(path_, options(60.0F));
    EXPECT_TRUE(mask_bit(path_, "step/0001/mask", greater));
    EXPECT_TRUE(mask_bit(path_, "step/0001/next_mask", greater));
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded).status, Status::passed);
}

TEST_F(NearTieTest, TheOtherMaskPassesAtRelAndTheRunFollowsIt) {
    for (const Index step : {1, 2}) {
        record_with_the_lesser_at(step, 60.0F);
        for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start}) {
            const TraceVerdict rel = verify_from(path_, from, Level::rel());
            EXPECT_EQ(rel.status, Status::passed) << "step " << step << "\n" << text_report(rel);
            const TraceVerdict exact = verify_from(path_, from);
            EXPECT_EQ(exact.status, Status::failed);
            EXPECT_EQ(exact.first.value().phase, name(Phase::mask));
            EXPECT_EQ(exact.first.value().index, lesser);
            EXPECT_EQ(exact.first.value().rank, 1);
        }
    }
}

TEST_F(NearTieTest, AMaskThatDiffersWhereScoresAreClearFailsAtRel) {
    for (const Index step : {1, 2}) {
        record_with_the_lesser_at(step, 59.9F);
        for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start}) {
            const TraceVerdict rel = verify_from(path_, from, Level::rel());
            EXPECT_EQ(rel.status, Status::failed);
            EXPECT_EQ(rel.first.value().phase, name(Phase::mask));
            EXPECT_EQ(rel.first.value().result, step == 1 ? "mask" : "next_mask");
            EXPECT_EQ(rel.first.value().step, 1);
        }
    }
}

/// Each score may be off by 4 roundings, 2^-6 of it; the limit is twice that, for both.
TEST_F(NearTieTest, AtBf16TheOtherMaskPassesWhereBf16CannotTellTheScores) {
    for (const Index step : {1, 2}) {
        record_with_the_lesser_at(step, 58.0F);
        EXPECT_EQ(verify_from(path_, ReferenceStart::recorded, Level::rel()).status, Status::failed);
        const TraceVerdict passes = verify_from(path_, ReferenceStart::recorded, Level::bf16());
        EXPECT_EQ(passes.status, Status::passed) << text_report(passes);
        record_with_the_lesser_at(step, 55.0F);
        const TraceVerdict fails = verify_from(path_, ReferenceStart::recorded, Level::bf16());
        EXPECT_EQ(fails.status, Status::failed);
        EXPECT_EQ(fails.first.value().phase, name(Phase::mask));
    }
}

TEST_F(NearTieTest, BothOfTwoNearlyEqualAreOneTooManyAndNoneOneTooFewAtRel) {
    for (const Index wrong : {lesser, greater}) {
        record(path_, options(60.0F));
        flip_mask_bit(path_, "step/0001/next_mask", wrong);
        const TraceVerdict rel = verify_from(path_, ReferenceStart::start, Level::rel());
        EXPECT_EQ(rel.status, Status::failed);
        EXPECT_EQ(rel.first.value().step, 1);
        EXPECT_EQ(rel.first.value().result, "next_mask");
        EXPECT_EQ(mismatched(rel), 1);
    }
}

TEST_F(NearTieTest, TheMaskInUseMustBeTheRecordedComingOneInEveryBitAtRel) {
    record_with_the_lesser_at(2, 60.0F);
    change(
        [](FileImage& image) { image.at("step/0001/next_mask").data = to_bits(Coordinates{greater}, 9); });
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded, Level::rel());
    EXPECT_EQ(verdict.status, Status::failed);
    EXPECT_EQ(verdict.first.value().step, 2);
    EXPECT_EQ(verdict.first.value().result, "mask");
}

TEST_F(NearTieTest, WithoutAComingMaskTheOneInUseMayBeEitherAtRel) {
    record_with_the_lesser_at(2, 60.0F);
    change([](FileImage& image) { image.drop("next_mask"); });
    for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start}) {
        const TraceVerdict verdict = verify_from(path_, from, Level::rel());
        EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
    }
}

} // namespace
} // namespace truestep::verify::scape
