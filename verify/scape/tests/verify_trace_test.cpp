// Tests verdicts on good traces, on refused steps, and on traces that prove little.
#include <truestep/verify/scape/verify_trace.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
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
using support::mismatched;
using support::row;
using support::set_element;

// Refused steps.

TEST_F(VerifyTraceTest, AGoodTraceWithRefusedStepsPasses) {
    RecordOptions options = support::small_run();
    options.injections = {{1, 0, 0, nan(0.0F)}, {3, 1, 40, infinity(0.0F)}, {5, 2, 80, 0x1.000002p56F}};
    record(path_, options);
    for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start})
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
        for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start}) {
            const TraceVerdict verdict = verify_from(path_, from);
            expect_first(verdict, {3, Phase::check, result, 1, 40, "mlp", 5});
            EXPECT_EQ(verdict.first.value().comparison.first.front().index, 7);
            EXPECT_TRUE(contains(verdict.first.value().note, "shows changed " + result));
            EXPECT_TRUE(contains(verdict.first.value().note, "is nan"));
            EXPECT_EQ(row(verdict, "outcome").mismatched, 1);
            if (from == ReferenceStart::start) {
                EXPECT_EQ(mismatched(verdict), 1);
            }
        }
    }
    for (const char* result : {"mask", "next_mask"}) {
        record(path_, options);
        flip_mask_bit(path_, "step/0003/" + std::string(result), 60);
        expect_first(verify_from(path_, ReferenceStart::start), {3, Phase::check, result, 1, 40, "mlp", 5});
    }
}

TEST_F(VerifyTraceTest, AGradientThatShouldHaveBeenRefusedFailsTheCheckAtItsPlace) {
    for (const float bad : {nan(0.0F), infinity(0.0F), -0x1.000002p56F}) {
        record(path_, support::small_run());
        set_element(path_, "step/0002/gradient/rank2", 33, bad);
        for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start})
            expect_first(verify_from(path_, from), {2, Phase::check, "next_mask", 2, 33, "norm", 3});
    }
}

TEST_F(VerifyTraceTest, AfterAStepThatWasNotRefusedTheRecordedStateIsFollowed) {
    problem::HyperParameters settings;
    settings.bias_correction = problem::BiasCorrection::none; // else later steps' numbers matter
    record(path_, support::small_run(problem::Algorithm::scape, settings));
    set_element(path_, "step/0002/gradient/rank2", 33, nan(0.0F));
    EXPECT_EQ(mismatched(verify_from(path_, ReferenceStart::recorded)), 1);
}

TEST_F(VerifyTraceTest, AGradientOfExactlyTheLimitIsNotRefused) {
    RecordOptions options = support::small_run();
    options.injections = {{2, 1, 12, -0x1p56F}};
    record(path_, options);
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_EQ(row(verdict, "parameters").compared, 5 * 81);
}

TEST_F(VerifyTraceTest, AWrongGradientIsFoundInTheFirstResultItEnters) {
    record(path_, support::small_run());
    const auto value = element<float>(path_, "step/0003/gradient/rank1", 50);
    set_element(path_, "step/0003/gradient/rank1", 50, value + 1.0F);
    expect_first(verify_from(path_, ReferenceStart::recorded),
                 {3, Phase::local, "local", 1, 50, "mlp", 15});
}

TEST_F(VerifyTraceTest, AStateThatTheReferenceHaltsAtFailsTheStep) {
    record(path_, support::small_run());
    set_element(path_, "learning_rate", 3, 1e300);
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
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
                for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start})
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
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
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
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
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
    EXPECT_EQ(verify_trace(path_, {}).from, ReferenceStart::recorded);
    change([](FileImage& image) { image.drop("step/0004/residual/rank1"); });
    EXPECT_EQ(verify_trace(path_, {}).from, ReferenceStart::start);
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
    for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start})
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
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
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
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded, Level::rel());
    const Row& parameters = row(verdict, "parameters");
    EXPECT_GT(parameters.unbounded, 0);
    EXPECT_EQ(parameters.compared + parameters.unbounded, 5 * 81);
    EXPECT_EQ(mismatched(verdict), 0);
    ASSERT_EQ(verdict.notes.size(), 2U) << "and that there is one copy only";
    EXPECT_TRUE(
        contains(verdict.notes[0], std::to_string(parameters.unbounded) + " values were not compared"));
    EXPECT_EQ(row(verify_from(path_, ReferenceStart::recorded), "parameters").unbounded, 0)
        << "bits need no bound";

    set_element(path_, "step/0005/parameters", 32, nan(0.0F));
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded, Level::rel()).status, Status::failed)
        << "a NaN is within no bound, and none is no bound either";
}

TEST_F(VerifyTraceTest, ARunWithoutASparseSegmentIsNotedWhereItsDensityAsksForOne) {
    const auto notes_at = [&](double density) {
        RecordOptions options = support::small_run();
        const problem::Problem& given = options.problem;
        std::vector<problem::Tensor> tensors = given.layout.tensors();
        for (problem::Tensor& tensor : tensors)
            tensor.always_dense = true;
        options.problem = problem::make_problem(given.algorithm, given.workers, problem::Layout(tensors),
                                                problem::PartitionRule::by_shard, given.settings);
        options.density = problem::DensitySchedule::constant(density);
        record(path_, options);
        const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
        EXPECT_EQ(verdict.status, Status::passed);
        return verdict.notes;
    };
    const std::vector<std::string> sparse = notes_at(0.1);
    ASSERT_EQ(sparse.size(), 2U) << "and that there is one copy only";
    EXPECT_TRUE(contains(sparse[0], "although the density is 0.1")) << sparse[0];
    EXPECT_EQ(notes_at(1.0).size(), 1U);
}

TEST_F(VerifyTraceTest, ATraceOfRefusedStepsOnlyIsUntested) {
    RecordOptions options = support::small_run();
    options.steps = 1;
    options.injections = {{1, 0, 0, nan(0.0F)}};
    record(path_, options);
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded).status, Status::untested);
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
        const std::filesystem::path folder = std::filesystem::path(TRUESTEP_FIXTURES) / "artifact";
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
        for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start})
            EXPECT_EQ(verify_from(path, from, Level::rel()).status, Status::passed) << path;
        if (settings.decay_order == problem::DecayOrder::together) {
            ++together;
            EXPECT_TRUE(contains(error_of([&] { static_cast<void>(verify_trace(path, {})); }),
                                 "level EXACT is not available"));
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
        const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded, Level::rel());
        EXPECT_EQ(verdict.status, Status::failed);
        EXPECT_EQ(verdict.first.value().phase, name(Phase::mask));
    }
    EXPECT_GT(rounded_up, 0);
}

} // namespace
} // namespace truestep::verify::scape
