// Tests that one wrong value or bit is found at its place, and which later results it makes fail.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/scape/record.hpp>

#include "verify_trace_support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::element;
using support::FileImage;
using support::flip_mask_bit;
using support::mask_bit;
using support::mismatched;
using support::row;
using support::set_element;

// One wrong value or bit in a good trace: it is found exactly where it is, and only results that
// depend on it fail.

/// The coordinate that is made wrong: one of a tensor, by its place relative to the step's mask.
enum class Pick { any, selected, unselected };

struct Corruption {
    std::string name;
    Result result;
    Index step;
    int rank; ///< of the vector; 0 if all ranks have the same
    std::string tensor;
    Index from_end; ///< 0: the last coordinate of the tensor that `pick` allows, 1: the one before, ...
    Pick pick;
    float (*change)(float);
    Phase phase;
    bool clip = false;
    bool dense = false; ///< AdamS instead of SCAPE
};

// NOLINTNEXTLINE(readability-identifier-naming): the name that googletest looks for
void PrintTo(const Corruption& corruption, std::ostream* stream) {
    *stream << corruption.name;
}

class OneWrongValue : public VerifyTraceTest, public testing::WithParamInterface<Corruption> {
  protected:
    /// Records the trace, makes the value wrong and returns its place.
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
    expect_first(verify_from(path_, ReferenceStart::start), place);
    expect_first(verify_from(path_, ReferenceStart::recorded), place);
}

TEST_P(OneWrongValue, IsTheOnlyMismatchWhereTheReferenceRunsFree) {
    const Place place = corrupt();
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::start);
    EXPECT_EQ(mismatched(verdict), 1);
    EXPECT_EQ(row(verdict, place.result).mismatched, 1);
    EXPECT_EQ(row(verdict, place.result).phase, name(place.phase));
}

TEST_P(OneWrongValue, FailsOnlyWhatHangsOnItFromTheRecordedStates) {
    const Place place = corrupt();
    const TraceVerdict upto = verify_steps(place.step, ReferenceStart::recorded);
    EXPECT_EQ(mismatched(upto), 1) << "in its own step nothing hangs on a result";
    const TraceVerdict all = verify_from(path_, ReferenceStart::recorded);
    if (!std::isfinite(GetParam().change(1.0F)) || place.step == all.steps)
        return; // the reference takes no step from such a state
    // The next step begins with the wrong state, the one after that with a right one again.
    EXPECT_EQ(mismatched(all), mismatched(verify_steps(place.step + 1, ReferenceStart::recorded)));
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

// The results that depend on a wrong state, counted.

TEST_F(VerifyTraceTest, AWrongResidualIsSeenAgainInTheNextStepOfItsRankOnly) {
    record(path_, support::small_run());
    // Rank 0 owns nothing of mlp, so no score depends on its residual there.
    Index coordinate = 80;
    while (mask_bit(path_, "step/0002/mask", coordinate) || mask_bit(path_, "step/0003/mask", coordinate))
        --coordinate;
    const auto value = element<float>(path_, "step/0002/residual/rank0", coordinate);
    set_element(path_, "step/0002/residual/rank0", coordinate, a_thousandth_more(value));
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
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
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
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
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
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
    // Small, so that no deciding score moves past another.
    set_element(path_, "step/0002/first_moment", coordinate, 0x1p-10F);
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
    EXPECT_EQ(row(verdict, "first_moment").mismatched, 1);
    EXPECT_EQ(row(verdict, "local").mismatched, 3);
    EXPECT_EQ(row(verdict, "residual").mismatched, 3);
    EXPECT_EQ(mismatched(verdict), 7);
}

TEST_F(VerifyTraceTest, ANanInAStateEndsTheCheckWithTheReasonFromTheRecordedStates) {
    record(path_, support::small_run());
    set_element(path_, "step/0003/parameters", 31, nan(0.0F));
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
    expect_first(verdict, {3, Phase::update, "parameters", all_ranks, 31, "norm", 1});
    EXPECT_EQ(row(verdict, "outcome").mismatched, 1) << "the reference takes no step from there";
    EXPECT_EQ(row(verdict, "outcome").compared, 4);
    EXPECT_EQ(row(verdict, "parameters").compared, 3 * 81);
    EXPECT_EQ(mismatched(verdict), 2);
}

// Masks.

/// A coordinate of [begin, end) that the mask holds, or one that it lacks.
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
    const TraceVerdict start = verify_from(path_, ReferenceStart::start);
    expect_first(start, place);
    EXPECT_EQ(mismatched(start), 1);
    const TraceVerdict recorded = verify_from(path_, ReferenceStart::recorded);
    expect_first(recorded, place);
    // The step is taken with the trace's mask, so that its results at that one coordinate are wrong
    // too: mean, gradient, three residuals, moment and parameter. No other step depends on it.
    EXPECT_EQ(mismatched(recorded), 1 + 7);
    EXPECT_EQ(row(recorded, "residual").mismatched, 3);
    EXPECT_EQ(row(recorded, "next_mask").mismatched, 0);
    EXPECT_EQ(mismatched(verify_steps(3, ReferenceStart::recorded)), 1 + 7);
}

TEST_F(VerifyTraceTest, AMaskBitTooManyInTheFirstStepIsFound) {
    record(path_, support::small_run());
    const Index coordinate = coordinate_in(path_, "step/0001/mask", 35, 54, false);
    flip_mask_bit(path_, "step/0001/mask", coordinate);
    const Place place{1, Phase::mask, "mask", 1, coordinate, "mlp", coordinate - 35};
    expect_first(verify_from(path_, ReferenceStart::start), place);
    expect_first(verify_from(path_, ReferenceStart::recorded), place);
    EXPECT_EQ(mismatched(verify_from(path_, ReferenceStart::start)), 1);
}

TEST_F(VerifyTraceTest, AMaskBitBeyondTheLastParameterIsFound) {
    for (const char* result : {"mask", "next_mask"}) {
        record(path_, support::small_run());
        flip_mask_bit(path_, "step/0002/" + std::string(result), 86);
        for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start}) {
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

/// Removes the first coordinate of [begin, end) that is in the mask, and adds the first that is
/// not.
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
    const TraceVerdict start = verify_from(path_, ReferenceStart::start);
    expect_first(start, place);
    EXPECT_EQ(mismatched(start), 4);
    const TraceVerdict recorded = verify_from(path_, ReferenceStart::recorded);
    expect_first(recorded, place);
    EXPECT_EQ(row(recorded, "next_mask").mismatched, 4);
    EXPECT_EQ(row(recorded, "mask").mismatched, 4) << "step 4 does not use the mask that step 3 made";
    EXPECT_EQ(mismatched(recorded), 8) << "but it is a right step with the mask that it uses";
}

TEST_F(VerifyTraceTest, AWrongCountOfBitsIsFoundInTheSegmentOfTheirOwner) {
    record(path_, support::small_run());
    flip_mask_bit(path_, "step/0005/next_mask", coordinate_in(path_, "step/0005/next_mask", 0, 27, true));
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded).first.value().rank, 0);
    record(path_, support::small_run());
    flip_mask_bit(path_, "step/0005/next_mask", 32);
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
    expect_first(verdict, {5, Phase::mask, "next_mask", 1, 32, "norm", 2});
    EXPECT_EQ(mismatched(verdict), 1);
}

TEST_F(VerifyTraceTest, AWrongBitAtTheEdgeOfASegmentIsItsOwners) {
    const std::vector<std::pair<Index, int>> owners{{0, 0}, {26, 0}, {27, 1}, {53, 1}, {54, 2}, {80, 2}};
    for (const auto& [coordinate, owner] : owners) {
        record(path_, support::small_run());
        flip_mask_bit(path_, "step/0002/next_mask", coordinate);
        const TraceVerdict verdict = verify_from(path_, ReferenceStart::start);
        EXPECT_EQ(verdict.first.value().index, coordinate);
        EXPECT_EQ(verdict.first.value().rank, owner) << coordinate;
    }
}

TEST_F(VerifyTraceTest, ATraceThatMovesTheMaskOneStepIsFoundAtItsFirstStep) {
    record(path_, support::small_run());
    change(
        [](FileImage& image) { image.at("step/0002/mask").data = image.at("step/0002/next_mask").data; });
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
    EXPECT_EQ(verdict.first.value().step, 2);
    EXPECT_EQ(verdict.first.value().result, "mask");
    EXPECT_EQ(row(verdict, "next_mask").mismatched, 0);
}

} // namespace
} // namespace truestep::verify::scape
