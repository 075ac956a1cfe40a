#include <scape/verify/verify_trace.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <scape/verify/record.hpp>
#include <scape/verify/report.hpp>

#include "support.hpp"

namespace scape::verify {
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
using support::TemporaryFolder;

constexpr int all_ranks = Divergence::all_ranks;

float next_up(float value) {
    return std::nextafter(value, std::numeric_limits<float>::infinity());
}
float negated(float value) {
    return -value;
}
/// Far enough to outlast the roundings of a step, near enough to change no selection.
float a_thousandth_more(float value) {
    return value * 1.001F;
}
float one(float) {
    return 1.0F;
}
float negative_zero(float) {
    return -0.0F;
}
float nan(float) {
    return std::numeric_limits<float>::quiet_NaN();
}
float infinity(float) {
    return std::numeric_limits<float>::infinity();
}

TraceVerdict verify_from(const std::filesystem::path& path, From from, Level level = Level::exact()) {
    VerifyOptions options;
    options.from = from;
    options.level = level;
    return verify_trace(path, options);
}

/// Where the first divergence has to be.
struct Place {
    Index step = 0;
    Phase phase = Phase::check;
    std::string result;
    int rank = all_ranks;
    Index coordinate = 0;
    std::string tensor;
    Index index = 0; ///< in the tensor
};

void expect_first(const TraceVerdict& verdict, const Place& expected) {
    EXPECT_EQ(verdict.status, Status::failed);
    ASSERT_TRUE(verdict.first.has_value());
    EXPECT_EQ(verdict.first->step, expected.step);
    EXPECT_EQ(verdict.first->phase, name(expected.phase));
    EXPECT_EQ(verdict.first->result, expected.result);
    EXPECT_EQ(verdict.first->rank, expected.rank);
    ASSERT_TRUE(verdict.first->index.has_value());
    EXPECT_EQ(*verdict.first->index, expected.coordinate);
    const problem::Layout& layout = verdict.layout;
    const std::size_t tensor = layout.tensor_at(*verdict.first->index);
    EXPECT_EQ(layout.tensors()[tensor].name, expected.tensor);
    EXPECT_EQ(*verdict.first->index - layout.begin(tensor), expected.index);
    EXPECT_TRUE(contains(text_report(verdict), place(*verdict.first, layout)));
}

class VerifyTraceTest : public testing::Test {
  protected:
    VerifyTraceTest() : path_(folder_ / "trace.safetensors") {}

    /// The trace's first `steps` steps, checked.
    [[nodiscard]] TraceVerdict verify_steps(Index steps, From from) const {
        const auto part = folder_ / "part.safetensors";
        FileImage image(path_);
        image.keep_steps(steps);
        image.save(part);
        return verify_from(part, from);
    }

    void change(const std::function<void(FileImage&)>& change_image) const {
        FileImage image(path_);
        change_image(image);
        image.save(path_);
    }

    TemporaryFolder folder_;
    std::filesystem::path path_;
};

// One wrong value or bit in a good trace: found exactly where it is, and nothing else fails that does not
// hang on it.

/// Which coordinate of a vector is made wrong: one of a tensor, by its place relative to the step's mask.
enum class Pick { any, selected, unselected };

struct Corruption {
    std::string name;
    Result result;
    Index step;
    int rank; ///< of the vector; 0 where all ranks have the same
    std::string tensor;
    Index from_end; ///< 0: the last coordinate of the tensor that `pick` allows, 1: the one before, ...
    Pick pick;
    float (*change)(float);
    Phase phase;
    bool clip = false;
    bool dense = false; ///< AdamS in place of SCAPE
};

// NOLINTNEXTLINE(readability-identifier-naming): the name that googletest looks for
void PrintTo(const Corruption& corruption, std::ostream* stream) {
    *stream << corruption.name;
}

class OneWrongValue : public VerifyTraceTest, public testing::WithParamInterface<Corruption> {
  protected:
    /// Records the trace, makes the value wrong and says where it is.
    Place corrupt() const {
        const Corruption& corruption = GetParam();
        problem::HyperParameters settings;
        settings.clip_norm = corruption.clip ? 0.5 : 0.0;
        const RecordOptions options = support::small_run(
            corruption.dense ? problem::Algorithm::adams : problem::Algorithm::scape, settings);
        record(path_, options);
        const ResultKind& kind = kind_of(corruption.result);
        const problem::Layout& layout = options.problem.layout;
        Place place{corruption.step,
                    corruption.phase,
                    std::string(kind.name),
                    kind.per_rank ? corruption.rank : all_ranks,
                    0,
                    corruption.tensor,
                    0};
        std::size_t tensor = 0;
        while (layout.tensors()[tensor].name != corruption.tensor)
            ++tensor;
        const std::string mask = tensor_name(kind_of(Result::mask), corruption.step, 0);
        Index left = corruption.from_end;
        Index coordinate = layout.end(tensor) - 1;
        for (; coordinate >= layout.begin(tensor); --coordinate)
            if ((corruption.pick == Pick::any ||
                 mask_bit(path_, mask, coordinate) == (corruption.pick == Pick::selected)) &&
                left-- == 0)
                break;
        EXPECT_GE(coordinate, layout.begin(tensor)) << "no such coordinate";
        place.coordinate = coordinate;
        place.index = coordinate - layout.begin(tensor);
        const std::string vector = tensor_name(kind, corruption.step, corruption.rank);
        const auto good = element<float>(path_, vector, coordinate);
        const float bad = corruption.change(good);
        EXPECT_NE(std::bit_cast<std::uint32_t>(good), std::bit_cast<std::uint32_t>(bad));
        set_element(path_, vector, coordinate, bad);
        return place;
    }
};

TEST_P(OneWrongValue, IsFoundWhereItIs) {
    const Place place = corrupt();
    expect_first(verify_from(path_, From::start), place);
    expect_first(verify_from(path_, From::recorded), place);
}

TEST_P(OneWrongValue, IsTheOnlyMismatchWhereTheReferenceRunsFree) {
    const Place place = corrupt();
    const TraceVerdict verdict = verify_from(path_, From::start);
    EXPECT_EQ(mismatched(verdict), 1);
    EXPECT_EQ(row(verdict, place.result).mismatched, 1);
    EXPECT_EQ(row(verdict, place.result).phase, name(place.phase));
}

TEST_P(OneWrongValue, FailsOnlyWhatHangsOnItFromTheRecordedStates) {
    const Place place = corrupt();
    const TraceVerdict upto = verify_steps(place.step, From::recorded);
    EXPECT_EQ(mismatched(upto), 1) << "in its own step nothing hangs on a result";
    const TraceVerdict all = verify_from(path_, From::recorded);
    if (!std::isfinite(GetParam().change(1.0F)) || place.step == all.steps)
        return; // the reference takes no step from such a state
    // The next step begins with the wrong state, the one after that with a right one again.
    EXPECT_EQ(mismatched(all), mismatched(verify_steps(place.step + 1, From::recorded)));
    if (kind_of(GetParam().result).intermediate) {
        EXPECT_EQ(mismatched(all), 1) << "no step begins with it";
    }
}

INSTANTIATE_TEST_SUITE_P(
    InAPhase, OneWrongValue,
    testing::Values(
        Corruption{"LocalOfRank1", Result::local, 2, 1, "mlp", 3, Pick::any, next_up, Phase::local},
        Corruption{"LocalOfTheLastRankAtTheFirstStep", Result::local, 1, 2, "wq", 29, Pick::any, negated,
                   Phase::local},
        Corruption{"Exchanged", Result::exchanged, 3, 0, "wq", 0, Pick::selected, next_up, Phase::exchange},
        Corruption{"ExchangedOffTheMask", Result::exchanged, 3, 0, "wq", 0, Pick::unselected, negative_zero,
                   Phase::exchange},
        Corruption{"Reconstructed", Result::reconstructed, 2, 0, "norm", 2, Pick::selected, next_up,
                   Phase::reconstruct},
        Corruption{"ReconstructedWithClip", Result::reconstructed, 4, 0, "mlp", 1, Pick::selected, next_up,
                   Phase::reconstruct, true},
        Corruption{"ResidualOffTheMask", Result::residual, 2, 0, "wq", 4, Pick::unselected,
                   a_thousandth_more, Phase::residual},
        Corruption{"ResidualOfTheLastRank", Result::residual, 3, 2, "mlp", 0, Pick::unselected, next_up,
                   Phase::residual},
        Corruption{"ResidualKeptWhereSent", Result::residual, 2, 1, "mlp", 0, Pick::selected, one,
                   Phase::residual},
        Corruption{"SignOfZeroOfTheResidualOnTheMask", Result::residual, 3, 1, "norm", 0, Pick::selected,
                   negative_zero, Phase::residual},
        Corruption{"FirstMoment", Result::first_moment, 2, 0, "mlp", 2, Pick::selected, a_thousandth_more,
                   Phase::exchange},
        Corruption{"FirstMomentWithClip", Result::first_moment, 2, 0, "mlp", 2, Pick::selected,
                   a_thousandth_more, Phase::clip, true},
        Corruption{"FirstMomentKeptOffTheMask", Result::first_moment, 3, 0, "wq", 0, Pick::unselected, one,
                   Phase::exchange},
        Corruption{"SignOfZeroOfTheFirstMoment", Result::first_moment, 1, 0, "wq", 7, Pick::unselected,
                   negative_zero, Phase::exchange},
        Corruption{"FirstMomentOfAdamS", Result::first_moment, 2, 0, "norm", 1, Pick::any,
                   a_thousandth_more, Phase::exchange, false, true},
        Corruption{"LastParameter", Result::parameters, 2, 0, "mlp", 0, Pick::any, next_up, Phase::update},
        Corruption{"FirstParameter", Result::parameters, 1, 0, "wq", 29, Pick::any, negated, Phase::update},
        Corruption{"ParameterOfTheLastStep", Result::parameters, 5, 0, "norm", 0, Pick::any, next_up,
                   Phase::update},
        Corruption{"ParameterOfAdamS", Result::parameters, 4, 0, "mlp", 45, Pick::any, next_up,
                   Phase::update, false, true},
        Corruption{"NanInTheParameters", Result::parameters, 3, 0, "wq", 2, Pick::any, nan, Phase::update},
        Corruption{"InfinityInTheFirstMoment", Result::first_moment, 2, 0, "wq", 0, Pick::selected,
                   infinity, Phase::exchange},
        Corruption{"NanInTheParametersOfTheLastStep", Result::parameters, 5, 0, "mlp", 10, Pick::any, nan,
                   Phase::update},
        Corruption{"NanInAResidualOfTheLastStep", Result::residual, 5, 2, "mlp", 0, Pick::unselected, nan,
                   Phase::residual}),
    [](const auto& instance) { return instance.param.name; });

// What hangs on a wrong state, counted.

TEST_F(VerifyTraceTest, AWrongResidualIsSeenAgainInTheNextStepOfItsRankOnly) {
    record(path_, support::small_run());
    // Rank 0 owns nothing of mlp, so no score hangs on its residual there.
    Index coordinate = 80;
    while (mask_bit(path_, "step/0002/mask", coordinate) || mask_bit(path_, "step/0003/mask", coordinate))
        --coordinate;
    const auto value = element<float>(path_, "step/0002/residual/rank0", coordinate);
    set_element(path_, "step/0002/residual/rank0", coordinate, a_thousandth_more(value));
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    expect_first(verdict, {2, Phase::residual, "residual", 0, coordinate, "mlp", coordinate - 35});
    EXPECT_EQ(row(verdict, "residual").mismatched, 2) << "step 2 and, still off the mask, step 3";
    EXPECT_EQ(row(verdict, "local").mismatched, 1) << "step 3";
    EXPECT_EQ(mismatched(verdict), 3);
}

TEST_F(VerifyTraceTest, AWrongResidualThatIsSentInTheNextStepIsSeenInTheMean) {
    record(path_, support::small_run());
    Index coordinate = 80;
    while (mask_bit(path_, "step/0002/mask", coordinate) || !mask_bit(path_, "step/0003/mask", coordinate))
        --coordinate;
    const auto value = element<float>(path_, "step/0002/residual/rank0", coordinate);
    set_element(path_, "step/0002/residual/rank0", coordinate, 2.0F * value + 1.0F);
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    EXPECT_EQ(row(verdict, "residual").mismatched, 1) << "step 2; in step 3 it is 0 again";
    EXPECT_EQ(row(verdict, "local").mismatched, 1);
    EXPECT_EQ(row(verdict, "exchanged").mismatched, 1);
    EXPECT_EQ(row(verdict, "reconstructed").mismatched, 1);
    EXPECT_EQ(row(verdict, "first_moment").mismatched, 1);
    EXPECT_EQ(row(verdict, "parameters").mismatched, 1);
    EXPECT_EQ(mismatched(verdict), 6);
}

TEST_F(VerifyTraceTest, AWrongParameterIsSeenAgainInTheNextStepOnly) {
    record(path_, support::small_run());
    set_element(path_, "step/0002/parameters", 7, element<float>(path_, "step/0002/parameters", 7) + 1.0F);
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    expect_first(verdict, {2, Phase::update, "parameters", all_ranks, 7, "wq", 7});
    EXPECT_EQ(row(verdict, "parameters").mismatched, 2);
    EXPECT_EQ(mismatched(verdict), 2);
}

TEST_F(VerifyTraceTest, AWrongMomentOffTheMaskIsSeenInEveryRanksNextStep) {
    record(path_, support::small_run());
    Index coordinate = 80;
    while (mask_bit(path_, "step/0002/mask", coordinate) || mask_bit(path_, "step/0003/mask", coordinate) ||
           mask_bit(path_, "step/0004/mask", coordinate))
        --coordinate;
    // Small, so that no score that decides is moved past another.
    set_element(path_, "step/0002/first_moment", coordinate, 0x1p-10F);
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    EXPECT_EQ(row(verdict, "first_moment").mismatched, 1);
    EXPECT_EQ(row(verdict, "local").mismatched, 3);
    EXPECT_EQ(row(verdict, "residual").mismatched, 3);
    EXPECT_EQ(mismatched(verdict), 7);
}

TEST_F(VerifyTraceTest, ANanInAStateEndsTheCheckWithTheReasonFromTheRecordedStates) {
    record(path_, support::small_run());
    set_element(path_, "step/0003/parameters", 31, nan(0.0F));
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    expect_first(verdict, {3, Phase::update, "parameters", all_ranks, 31, "norm", 1});
    EXPECT_EQ(row(verdict, "outcome").mismatched, 1) << "the reference takes no step from there";
    EXPECT_EQ(row(verdict, "outcome").compared, 4);
    EXPECT_EQ(row(verdict, "parameters").compared, 3 * 81);
    EXPECT_EQ(mismatched(verdict), 2);
}

// Masks.

/// A coordinate of [begin, end) that the mask holds, or does not hold.
Index coordinate_in(const std::filesystem::path& path, const std::string& mask, Index begin, Index end,
                    bool held) {
    for (Index coordinate = begin; coordinate < end; ++coordinate)
        if (mask_bit(path, mask, coordinate) == held)
            return coordinate;
    ADD_FAILURE() << "no such coordinate";
    return begin;
}

TEST_F(VerifyTraceTest, AMaskBitThatIsMissingIsFoundWithTheSegmentsOwner) {
    record(path_, support::small_run());
    const Index coordinate = coordinate_in(path_, "step/0003/mask", 54, 81, true);
    flip_mask_bit(path_, "step/0003/mask", coordinate);
    const Place place{3, Phase::mask, "mask", 2, coordinate, "mlp", coordinate - 35};
    const TraceVerdict start = verify_from(path_, From::start);
    expect_first(start, place);
    EXPECT_EQ(mismatched(start), 1);
    const TraceVerdict recorded = verify_from(path_, From::recorded);
    expect_first(recorded, place);
    // The step is taken with the trace's mask, so that its results at that one coordinate are wrong too:
    // mean, gradient, three residuals, moment and parameter. No other step hangs on it.
    EXPECT_EQ(mismatched(recorded), 1 + 7);
    EXPECT_EQ(row(recorded, "residual").mismatched, 3);
    EXPECT_EQ(row(recorded, "next_mask").mismatched, 0);
    EXPECT_EQ(mismatched(verify_steps(3, From::recorded)), 1 + 7);
}

TEST_F(VerifyTraceTest, AMaskBitTooManyInTheFirstStepIsFound) {
    record(path_, support::small_run());
    const Index coordinate = coordinate_in(path_, "step/0001/mask", 35, 54, false);
    flip_mask_bit(path_, "step/0001/mask", coordinate);
    const Place place{1, Phase::mask, "mask", 1, coordinate, "mlp", coordinate - 35};
    expect_first(verify_from(path_, From::start), place);
    expect_first(verify_from(path_, From::recorded), place);
    EXPECT_EQ(mismatched(verify_from(path_, From::start)), 1);
}

TEST_F(VerifyTraceTest, AMaskBitBeyondTheLastParameterIsFound) {
    for (const char* result : {"mask", "next_mask"}) {
        record(path_, support::small_run());
        flip_mask_bit(path_, "step/0002/" + std::string(result), 86);
        for (const From from : {From::recorded, From::start}) {
            const TraceVerdict verdict = verify_from(path_, from);
            EXPECT_EQ(verdict.status, Status::failed);
            ASSERT_TRUE(verdict.first.has_value());
            EXPECT_EQ(verdict.first->step, 2);
            EXPECT_EQ(verdict.first->phase, name(Phase::mask));
            EXPECT_EQ(verdict.first->result, result);
            EXPECT_EQ(verdict.first->rank, all_ranks) << "nobody owns it";
            EXPECT_EQ(verdict.first->index, 86);
            EXPECT_EQ(mismatched(verdict), 1);
            EXPECT_TRUE(contains(text_report(verdict), "beyond the last parameter (bit 86)"));
        }
    }
}

/// Takes the first coordinate of [begin, end) that is in the mask out, and puts the first that is not in.
std::vector<Index> swap_in_segment(const std::filesystem::path& path, const std::string& mask, Index begin,
                                   Index end) {
    std::vector<Index> swapped{coordinate_in(path, mask, begin, end, true),
                               coordinate_in(path, mask, begin, end, false)};
    for (const Index coordinate : swapped)
        flip_mask_bit(path, mask, coordinate);
    std::sort(swapped.begin(), swapped.end());
    return swapped;
}

TEST_F(VerifyTraceTest, OfTwoWrongSegmentsTheFirstIsNamedWithItsOwner) {
    record(path_, support::small_run());
    swap_in_segment(path_, "step/0003/next_mask", 54, 81);
    const Index first = swap_in_segment(path_, "step/0003/next_mask", 35, 54).front();
    const Place place{3, Phase::mask, "next_mask", 1, first, "mlp", first - 35};
    const TraceVerdict start = verify_from(path_, From::start);
    expect_first(start, place);
    EXPECT_EQ(mismatched(start), 4);
    const TraceVerdict recorded = verify_from(path_, From::recorded);
    expect_first(recorded, place);
    EXPECT_EQ(row(recorded, "next_mask").mismatched, 4);
    EXPECT_EQ(row(recorded, "mask").mismatched, 4) << "step 4 does not use the mask that step 3 made";
    EXPECT_EQ(mismatched(recorded), 8) << "but it is a right step with the mask that it uses";
}

TEST_F(VerifyTraceTest, AWrongCountOfBitsIsFoundInTheSegmentOfTheirOwner) {
    record(path_, support::small_run());
    flip_mask_bit(path_, "step/0005/next_mask", coordinate_in(path_, "step/0005/next_mask", 0, 27, true));
    EXPECT_EQ(verify_from(path_, From::recorded).first.value().rank, 0);
    record(path_, support::small_run());
    flip_mask_bit(path_, "step/0005/next_mask", 32);
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    expect_first(verdict, {5, Phase::mask, "next_mask", 1, 32, "norm", 2});
    EXPECT_EQ(mismatched(verdict), 1);
}

TEST_F(VerifyTraceTest, AWrongBitAtTheEdgeOfASegmentIsItsOwners) {
    const std::vector<std::pair<Index, int>> owners{{0, 0}, {26, 0}, {27, 1}, {53, 1}, {54, 2}, {80, 2}};
    for (const auto& [coordinate, owner] : owners) {
        record(path_, support::small_run());
        flip_mask_bit(path_, "step/0002/next_mask", coordinate);
        const TraceVerdict verdict = verify_from(path_, From::start);
        EXPECT_EQ(verdict.first.value().index, coordinate);
        EXPECT_EQ(verdict.first.value().rank, owner) << coordinate;
    }
}

TEST_F(VerifyTraceTest, ATraceThatMovesTheMaskOneStepIsFoundAtItsFirstStep) {
    record(path_, support::small_run());
    change(
        [](FileImage& image) { image.at("step/0002/mask").data = image.at("step/0002/next_mask").data; });
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    EXPECT_EQ(verdict.first.value().step, 2);
    EXPECT_EQ(verdict.first.value().result, "mask");
    EXPECT_EQ(row(verdict, "next_mask").mismatched, 0);
}

// Refused steps.

TEST_F(VerifyTraceTest, AGoodTraceWithRefusedStepsPasses) {
    RecordOptions options = support::small_run();
    options.injections = {{1, 0, 0, nan(0.0F)}, {3, 1, 40, infinity(0.0F)}, {5, 2, 80, 0x1.000002p56F}};
    record(path_, options);
    for (const From from : {From::recorded, From::start})
        for (const Level& level : {Level::exact(), Level::rel()}) {
            const TraceVerdict verdict = verify_from(path_, from, level);
            EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
            EXPECT_EQ(row(verdict, "outcome").compared, 5);
            EXPECT_EQ(row(verdict, "parameters").compared, 2 * 81);
        }
}

TEST_F(VerifyTraceTest, ARefusedStepThatChangedAResultFailsTheCheckWithTheGradientsPlace) {
    RecordOptions options = support::small_run();
    options.injections = {{3, 1, 40, nan(0.0F)}};
    for (const auto& [result, tensor] :
         std::vector<std::pair<std::string, std::string>>{{"residual", "step/0003/residual/rank2"},
                                                          {"first_moment", "step/0003/first_moment"},
                                                          {"parameters", "step/0003/parameters"}}) {
        record(path_, options);
        set_element(path_, tensor, 7, next_up(element<float>(path_, tensor, 7)));
        for (const From from : {From::recorded, From::start}) {
            const TraceVerdict verdict = verify_from(path_, from);
            expect_first(verdict, {3, Phase::check, result, 1, 40, "mlp", 5});
            EXPECT_EQ(verdict.first.value().comparison.first.front().index, 7);
            EXPECT_TRUE(contains(verdict.first.value().note, "shows changed " + result));
            EXPECT_TRUE(contains(verdict.first.value().note, "is nan"));
            EXPECT_EQ(row(verdict, "outcome").mismatched, 1);
            if (from == From::start) {
                EXPECT_EQ(mismatched(verdict), 1);
            }
        }
    }
    for (const char* result : {"mask", "next_mask"}) {
        record(path_, options);
        flip_mask_bit(path_, "step/0003/" + std::string(result), 60);
        expect_first(verify_from(path_, From::start), {3, Phase::check, result, 1, 40, "mlp", 5});
    }
}

TEST_F(VerifyTraceTest, AGradientThatShouldHaveBeenRefusedFailsTheCheckAtItsPlace) {
    for (const float bad : {nan(0.0F), infinity(0.0F), -0x1.000002p56F}) {
        record(path_, support::small_run());
        set_element(path_, "step/0002/gradient/rank2", 33, bad);
        for (const From from : {From::recorded, From::start})
            expect_first(verify_from(path_, from), {2, Phase::check, "next_mask", 2, 33, "norm", 3});
    }
}

TEST_F(VerifyTraceTest, AfterAStepThatWasNotRefusedTheRecordedStateIsFollowed) {
    problem::HyperParameters settings;
    settings.bias_correction = problem::BiasCorrection::none; // else every later step's number counts too
    record(path_, support::small_run(problem::Algorithm::scape, settings));
    set_element(path_, "step/0002/gradient/rank2", 33, nan(0.0F));
    EXPECT_EQ(mismatched(verify_from(path_, From::recorded)), 1);
}

TEST_F(VerifyTraceTest, AGradientOfExactlyTheLimitIsNotRefused) {
    RecordOptions options = support::small_run();
    options.injections = {{2, 1, 12, -0x1p56F}};
    record(path_, options);
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_EQ(row(verdict, "parameters").compared, 5 * 81);
}

TEST_F(VerifyTraceTest, AWrongGradientIsFoundInTheFirstResultItEnters) {
    record(path_, support::small_run());
    const auto value = element<float>(path_, "step/0003/gradient/rank1", 50);
    set_element(path_, "step/0003/gradient/rank1", 50, value + 1.0F);
    expect_first(verify_from(path_, From::recorded), {3, Phase::local, "local", 1, 50, "mlp", 15});
}

TEST_F(VerifyTraceTest, AStateThatTheReferenceHaltsAtFailsTheStep) {
    record(path_, support::small_run());
    set_element(path_, "learning_rate", 3, 1e300);
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    EXPECT_EQ(verdict.status, Status::failed);
    ASSERT_TRUE(verdict.first.has_value());
    EXPECT_EQ(verdict.first->step, 4);
    EXPECT_EQ(verdict.first->phase, name(Phase::update));
    EXPECT_FALSE(verdict.first->index.has_value());
    EXPECT_TRUE(contains(verdict.first->note, "halted after step 4"));
    EXPECT_EQ(row(verdict, "outcome").mismatched, 1);
}

// Good traces.

TEST_F(VerifyTraceTest, AGoodTracePassesAtBothLevelsFromBothPlaces) {
    for (const auto algorithm : {problem::Algorithm::scape, problem::Algorithm::adams})
        for (const auto rule : {problem::PartitionRule::by_shard, problem::PartitionRule::by_tensor})
            for (const int workers : {1, 2, 3, 4, 5, 7, 8, 100}) {
                problem::HyperParameters settings;
                settings.clip_norm = algorithm == problem::Algorithm::scape ? 0.5 : 0.0;
                record(path_, support::small_run(algorithm, settings, workers, rule));
                for (const From from : {From::recorded, From::start})
                    for (const Level& level : {Level::exact(), Level::rel()}) {
                        const TraceVerdict verdict = verify_from(path_, from, level);
                        EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
                        EXPECT_EQ(mismatched(verdict), 0);
                        EXPECT_FALSE(verdict.first.has_value());
                        EXPECT_EQ(verdict.notes,
                                  std::vector<std::string>(workers > 1 ? 1 : 0,
                                                           std::string(replicas_not_recorded)));
                    }
            }
}

TEST_F(VerifyTraceTest, EveryRecordedValueIsCompared) {
    record(path_, support::small_run());
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    ASSERT_EQ(verdict.rows.size(), 1 + result_kinds.size());
    EXPECT_EQ(row(verdict, "outcome").compared, 5);
    for (const ResultKind& kind : result_kinds) {
        EXPECT_EQ(row(verdict, std::string(kind.name)).compared, 5 * 81 * (kind.per_rank ? 3 : 1))
            << kind.name;
        EXPECT_EQ(row(verdict, std::string(kind.name)).phase,
                  name(phase_of(kind.result, TraceReader(path_).head().problem)));
        EXPECT_EQ(row(verdict, std::string(kind.name)).status(), Status::passed) << kind.name;
    }
    EXPECT_EQ(verdict.steps, 5);
    EXPECT_EQ(verdict.source, "a test");
    EXPECT_EQ(verdict.path, path_.string());
}

TEST_F(VerifyTraceTest, OnlyValuesThatAreNotZeroByRuleCanProveSomething) {
    record(path_, support::small_run());
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    constexpr Index selected = 6 + 1 + 5 + 4 + 6; // of the five segments
    for (const char* on_the_mask : {"exchanged", "reconstructed", "first_moment"})
        EXPECT_EQ(row(verdict, on_the_mask).eligible, 5 * selected) << on_the_mask;
    EXPECT_EQ(row(verdict, "residual").eligible, Index{5} * 3 * (81 - selected));
    EXPECT_EQ(row(verdict, "local").eligible, 5 * 3 * 81);
    EXPECT_EQ(row(verdict, "parameters").eligible, 5 * 81);
    for (const ResultKind& kind : result_kinds) {
        if (!kind.is_mask) {
            EXPECT_LE(row(verdict, std::string(kind.name)).nonzero,
                      row(verdict, std::string(kind.name)).eligible)
                << kind.name;
        }
    }
}

TEST_F(VerifyTraceTest, TheStartIsChosenByWhatIsRecorded) {
    record(path_, support::small_run());
    EXPECT_EQ(verify_trace(path_, {}).from, From::recorded);
    change([](FileImage& image) { image.drop("step/0004/residual/rank1"); });
    EXPECT_EQ(verify_trace(path_, {}).from, From::start);
    EXPECT_EQ(verify_trace(path_, {}).status, Status::passed);
}

TEST_F(VerifyTraceTest, ProgressNamesEveryStep) {
    record(path_, support::small_run());
    std::vector<Index> seen;
    VerifyOptions options;
    options.progress = [&](Index step, Index steps) {
        EXPECT_EQ(steps, 5);
        seen.push_back(step);
    };
    static_cast<void>(verify_trace(path_, options));
    EXPECT_EQ(seen, (std::vector<Index>{1, 2, 3, 4, 5}));
}

// Levels.

TEST_F(VerifyTraceTest, OneUlpFailsAtExactAndPassesAtRel) {
    for (const char* tensor :
         {"step/0005/parameters", "step/0003/residual/rank2", "step/0002/local/rank1"}) {
        record(path_, support::small_run());
        Index coordinate = 80;
        while (element<float>(path_, tensor, coordinate) == 0.0F)
            --coordinate;
        set_element(path_, tensor, coordinate, next_up(element<float>(path_, tensor, coordinate)));
        EXPECT_EQ(verify_from(path_, From::recorded, Level::exact()).status, Status::failed) << tensor;
        const TraceVerdict rel = verify_from(path_, From::recorded, Level::rel());
        EXPECT_EQ(rel.status, Status::passed) << text_report(rel);
    }
}

TEST_F(VerifyTraceTest, RelShowsHowMuchOfTheLimitIsUsed) {
    record(path_, support::small_run());
    const TraceVerdict rel = verify_from(path_, From::recorded, Level::rel());
    for (const char* result : {"local", "residual", "first_moment", "parameters"}) {
        EXPECT_GT(row(rel, result).share_of_limit, 0.01) << result;
        EXPECT_LE(row(rel, result).share_of_limit, 0.5)
            << result << ": the reference's own error is half of it";
    }
    EXPECT_EQ(row(verify_from(path_, From::recorded), "parameters").share_of_limit, 0.0);
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
        const TraceVerdict verdict = verify_from(path_, From::recorded, Level::rel());
        EXPECT_EQ(verdict.status, Status::failed) << tensor;
        EXPECT_EQ(verdict.first.value().index, coordinate) << tensor;
    }
}

TEST_F(VerifyTraceTest, ANanFailsAtRel) {
    record(path_, support::small_run());
    set_element(path_, "step/0005/parameters", 11, nan(0.0F));
    expect_first(verify_from(path_, From::recorded, Level::rel()),
                 {5, Phase::update, "parameters", all_ranks, 11, "wq", 11});
}

TEST_F(VerifyTraceTest, ALevelThatCannotBeHadIsRefused) {
    record(path_, support::small_run());
    change([](FileImage& image) {
        image.replace_in_config(R"("decay_order":"first")", R"("decay_order":"together")");
    });
    const std::string error = error_of([&] { static_cast<void>(verify_trace(path_, {})); });
    EXPECT_TRUE(contains(error, path_.string() + ": level EXACT cannot be had")) << error;
    EXPECT_TRUE(contains(error, "--level rel")) << error;
    // The same mathematics, other roundings.
    EXPECT_EQ(verify_from(path_, From::recorded, Level::rel()).status, Status::passed);
}

TEST_F(VerifyTraceTest, FromRecordedIsRefusedWhereStatesAreMissing) {
    for (const char* name :
         {"step/0003/parameters", "step/0005/first_moment", "step/0001/residual/rank2"}) {
        record(path_, support::small_run());
        change([&](FileImage& image) { image.drop(name); });
        const std::string error = error_of([&] { static_cast<void>(verify_from(path_, From::recorded)); });
        EXPECT_TRUE(contains(error, "--from recorded cannot be had")) << error;
        EXPECT_TRUE(contains(error, "use --from start")) << error;
        EXPECT_EQ(verify_from(path_, From::start).status, Status::passed);
    }
}

TEST_F(VerifyTraceTest, TheWordsForFromAreReadBack) {
    EXPECT_EQ(parse_from("recorded"), From::recorded);
    EXPECT_EQ(parse_from("start"), From::start);
    EXPECT_EQ(name(From::recorded), "recorded");
    EXPECT_EQ(name(From::start), "start");
    for (const char* word : {"", "Start", "begin"})
        EXPECT_TRUE(
            contains(error_of([&] { static_cast<void>(parse_from(word)); }), "must be recorded or start"));
}

// Masks at REL: two scores that rounding cannot tell apart. One worker, one segment of nine coordinates of
// which one is taken; coordinates 2 and 5 are made nearly equal and the greatest by far.

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
        // Two steps apart, for times 0.1 one could be lost.
        run.injections = {{1, 1, greater, next_up(next_up(60.0F))}, {1, 1, lesser, lesser_value}};
        return run;
    }

    /// A right run but for the mask that step `step` uses: the lesser coordinate's in place of its own.
    void record_with_the_lesser_at(Index step, float lesser_value) const {
        support::record_with(path_, options(lesser_value), [&](Index now, verify::Run<float>& run) {
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
    EXPECT_EQ(verify_from(path_, From::recorded).status, Status::passed);
}

TEST_F(NearTieTest, TheOtherMaskPassesAtRelAndTheRunFollowsIt) {
    for (const Index step : {1, 2}) {
        record_with_the_lesser_at(step, 60.0F);
        for (const From from : {From::recorded, From::start}) {
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
        for (const From from : {From::recorded, From::start}) {
            const TraceVerdict rel = verify_from(path_, from, Level::rel());
            EXPECT_EQ(rel.status, Status::failed);
            EXPECT_EQ(rel.first.value().phase, name(Phase::mask));
            EXPECT_EQ(rel.first.value().result, step == 1 ? "mask" : "next_mask");
            EXPECT_EQ(rel.first.value().step, 1);
        }
    }
}

TEST_F(NearTieTest, BothOfTwoNearlyEqualAreOneTooManyAndNoneOneTooFewAtRel) {
    for (const Index wrong : {lesser, greater}) {
        record(path_, options(60.0F));
        flip_mask_bit(path_, "step/0001/next_mask", wrong);
        const TraceVerdict rel = verify_from(path_, From::start, Level::rel());
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
    const TraceVerdict verdict = verify_from(path_, From::recorded, Level::rel());
    EXPECT_EQ(verdict.status, Status::failed);
    EXPECT_EQ(verdict.first.value().step, 2);
    EXPECT_EQ(verdict.first.value().result, "mask");
}

TEST_F(NearTieTest, WithoutAComingMaskTheOneInUseMayBeEitherAtRel) {
    record_with_the_lesser_at(2, 60.0F);
    change([](FileImage& image) { image.drop("next_mask"); });
    for (const From from : {From::recorded, From::start}) {
        const TraceVerdict verdict = verify_from(path_, from, Level::rel());
        EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
    }
}

// Traces that prove little or nothing.

TEST_F(VerifyTraceTest, ATraceOfZerosIsMistrusted) {
    RecordOptions options = support::small_run();
    options.density = problem::DensitySchedule::constant(1.0);
    record(path_, options);
    change([](FileImage& image) {
        for (FileImage::Tensor& tensor : image.tensors)
            if (auto* values = std::get_if<std::vector<float>>(&tensor.data))
                std::fill(values->begin(), values->end(), 0.0F);
    });
    for (const From from : {From::recorded, From::start})
        for (const Level& level : {Level::exact(), Level::rel()}) {
            const TraceVerdict verdict = verify_from(path_, from, level);
            EXPECT_EQ(verdict.status, Status::mistrusted) << text_report(verdict);
            EXPECT_EQ(mismatched(verdict), 0);
            EXPECT_EQ(row(verdict, "parameters").status(), Status::mistrusted);
            EXPECT_EQ(row(verdict, "residual").status(), Status::passed) << "zero by rule on the mask";
        }
}

TEST_F(VerifyTraceTest, AResultOfZerosIsMistrustedOnItsOwn) {
    RecordOptions options = support::small_run();
    options.problem.settings.weight_decay = 0.0;
    record(path_, options);
    change([](FileImage& image) {
        const auto initial = image.at("initial/parameters").data;
        for (FileImage::Tensor& tensor : image.tensors) {
            if (contains(tensor.name, "parameters"))
                tensor.data = initial;
            else if (auto* values = std::get_if<std::vector<float>>(&tensor.data))
                std::fill(values->begin(), values->end(), 0.0F);
        }
        // With all scores equal the lower indices are taken.
        std::vector<std::uint8_t> lowest =
            to_bits({0, 1, 2, 3, 4, 5, 27, 30, 31, 32, 33, 34, 35, 36, 37, 38, 54, 55, 56, 57, 58, 59}, 81);
        for (FileImage::Tensor& tensor : image.tensors)
            if (std::holds_alternative<std::vector<std::uint8_t>>(tensor.data))
                tensor.data = lowest;
    });
    const TraceVerdict verdict = verify_from(path_, From::recorded);
    EXPECT_EQ(mismatched(verdict), 0) << text_report(verdict);
    EXPECT_EQ(row(verdict, "first_moment").status(), Status::mistrusted);
    EXPECT_EQ(row(verdict, "residual").status(), Status::mistrusted);
    EXPECT_EQ(row(verdict, "parameters").status(), Status::passed);
}

TEST_F(VerifyTraceTest, AResultThatIsAbsentIsUntested) {
    for (const ResultKind& kind : result_kinds) {
        record(path_, support::small_run());
        change([&](FileImage& image) { image.drop_result(kind.name); });
        const TraceVerdict verdict = verify_trace(path_, {});
        EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
        for (const ResultKind& other : result_kinds)
            EXPECT_EQ(row(verdict, std::string(other.name)).status(),
                      &other == &kind ? Status::untested : Status::passed)
                << kind.name << " dropped, row " << other.name;
        EXPECT_TRUE(contains(text_report(verdict), "UNTESTED (not in the trace)"));
    }
}

TEST_F(VerifyTraceTest, AResultThatIsAbsentHereAndThereIsNoted) {
    record(path_, support::small_run());
    change([&](FileImage& image) { image.drop("step/0004/residual/rank1"); });
    const TraceVerdict verdict = verify_trace(path_, {});
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_EQ(row(verdict, "residual").compared, 14 * 81);
    ASSERT_EQ(verdict.notes.size(), 2U) << "and that there is one copy only";
    EXPECT_TRUE(contains(verdict.notes[0], "step/0004/residual/rank1")) << verdict.notes[0];
}

TEST_F(VerifyTraceTest, ValuesWithoutAFiniteBoundAreNotComparedAndNoted) {
    problem::HyperParameters settings;
    settings.epsilon = 1e-40;
    RecordOptions options = support::small_run(problem::Algorithm::scape, settings);
    options.data = DataClass::subnormal; // squares vanish, and no epsilon bounds the division
    record(path_, options);
    const TraceVerdict verdict = verify_from(path_, From::recorded, Level::rel());
    const Row& parameters = row(verdict, "parameters");
    EXPECT_GT(parameters.unbounded, 0);
    EXPECT_EQ(parameters.compared + parameters.unbounded, 5 * 81);
    EXPECT_EQ(mismatched(verdict), 0);
    ASSERT_EQ(verdict.notes.size(), 2U) << "and that there is one copy only";
    EXPECT_TRUE(
        contains(verdict.notes[0], std::to_string(parameters.unbounded) + " values were not compared"));
    EXPECT_EQ(row(verify_from(path_, From::recorded), "parameters").unbounded, 0) << "bits need no bound";

    set_element(path_, "step/0005/parameters", 32, nan(0.0F));
    EXPECT_EQ(verify_from(path_, From::recorded, Level::rel()).status, Status::failed)
        << "a NaN is within no bound, and none is no bound either";
}

TEST_F(VerifyTraceTest, ATraceOfRefusedStepsOnlyIsUntested) {
    RecordOptions options = support::small_run();
    options.steps = 1;
    options.injections = {{1, 0, 0, nan(0.0F)}};
    record(path_, options);
    EXPECT_EQ(verify_from(path_, From::recorded).status, Status::untested);
}

TEST_F(VerifyTraceTest, ATensorWithoutAMeaningIsNoted) {
    record(path_, support::small_run());
    change([](FileImage& image) { image.at("step/0002/exchanged").name = "step/0002/exchange"; });
    const TraceVerdict verdict = verify_trace(path_, {});
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_TRUE(std::any_of(verdict.notes.begin(), verdict.notes.end(), [](const std::string& note) {
        return contains(note, "'step/0002/exchange'");
    }));
}

// Traces of the authors' own code.

class ArtifactTest : public VerifyTraceTest {
  protected:
    static std::vector<std::filesystem::path> traces() {
        std::vector<std::filesystem::path> all;
        const std::filesystem::path folder = std::filesystem::path(SCAPE_FIXTURES) / "artifact";
        if (std::filesystem::exists(folder))
            for (const auto& entry : std::filesystem::directory_iterator(folder))
                if (entry.path().extension() == ".safetensors")
                    all.push_back(entry.path());
        return all;
    }
};

TEST_F(ArtifactTest, RoundingOfKUpAndDecayTogetherAreRead) {
    if (traces().empty())
        GTEST_SKIP() << "no traces of the artifact here";
    int together = 0;
    int rounded_up = 0;
    for (const auto& path : traces()) {
        const problem::HyperParameters settings = TraceReader(path).head().problem.settings;
        rounded_up += settings.k_rounding == problem::KRounding::ceil ? 1 : 0;
        for (const From from : {From::recorded, From::start})
            EXPECT_EQ(verify_from(path, from, Level::rel()).status, Status::passed) << path;
        if (settings.decay_order == problem::DecayOrder::together) {
            ++together;
            EXPECT_TRUE(contains(error_of([&] { static_cast<void>(verify_trace(path, {})); }),
                                 "level EXACT cannot be had"));
        }
    }
    EXPECT_GT(together, 0);
    EXPECT_GT(rounded_up, 0);
}

TEST_F(ArtifactTest, AnotherRoundingOfKFailsInTheMask) {
    if (traces().empty())
        GTEST_SKIP() << "no traces of the artifact here";
    int rounded_up = 0;
    for (const auto& trace : traces()) {
        const problem::Problem problem = TraceReader(trace).head().problem;
        if (problem.algorithm != problem::Algorithm::scape ||
            problem.settings.k_rounding != problem::KRounding::ceil)
            continue;
        ++rounded_up;
        FileImage image(trace);
        image.replace_in_config("\"ceil\"", "\"floor\"");
        image.save(path_);
        const TraceVerdict verdict = verify_from(path_, From::recorded, Level::rel());
        EXPECT_EQ(verdict.status, Status::failed);
        EXPECT_EQ(verdict.first.value().phase, name(Phase::mask));
    }
    EXPECT_GT(rounded_up, 0);
}

} // namespace
} // namespace scape::verify
