// A trace checked piece by piece must get the same verdict as one checked as a whole.
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/report.hpp>

#include "by_pieces.hpp"
#include "verify_trace_support.hpp"

namespace truestep::verify::scape {
namespace {

using support::FileImage;

constexpr Index everything = std::numeric_limits<Index>::max();

/// The verdict, or the error, in one text.
std::string verdict_by(const std::filesystem::path& path, const Level& level, ReferenceStart from,
                       Index piece, int threads) {
    VerifyOptions options;
    options.level = level;
    options.from = from;
    options.piece = piece;
    options.threads = threads;
    try {
        return json_report(verify_trace(path, options)).dump(1);
    } catch (const Error& error) {
        return error.what();
    }
}

/// The number of failed verdicts.
int expect_same(const std::filesystem::path& path) {
    int failed = 0;
    for (const Level& level : {Level::exact(), Level::rel(), Level::bf16()})
        for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start}) {
            const std::string whole = verdict_by(path, level, from, everything, 1);
            EXPECT_EQ(verdict_by(path, level, from, 1, 3), whole) << path << name(level) << name(from);
            EXPECT_EQ(verdict_by(path, level, from, 30, 1), whole) << path << name(level) << name(from);
            failed += support::contains(whole, "\"FAILED\"") ? 1 : 0;
        }
    return failed;
}

TEST(Pieces, EveryFixtureHasTheSameVerdict) {
    int traces = 0;
    int failed = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(TRUESTEP_FIXTURES))
        if (entry.path().extension() == ".safetensors") {
            ++traces;
            failed += expect_same(entry.path());
        }
    EXPECT_GT(traces, 30);
    EXPECT_GT(failed, 3) << "those of the artifact's defects";
}

class PiecesTest : public VerifyTraceTest {
  protected:
    void record_small(trace::Replicas replicas = trace::Replicas::none) const {
        RecordOptions options = support::small_run();
        options.replicas = replicas;
        record(path_, options);
    }
};

TEST_F(PiecesTest, AWrongValueIsToldAsInTheWhole) {
    for (const char* tensor : {"step/0002/local/rank1", "step/0003/exchanged", "step/0001/reconstructed",
                               "step/0002/residual/rank2", "step/0004/first_moment", "step/0005/parameters",
                               "step/0002/gradient/rank0", "initial/parameters"})
        for (const Index index : {Index{0}, Index{29}, Index{30}, Index{80}}) {
            record_small();
            support::set_element(path_, tensor, index, 0.75F);
            EXPECT_GT(expect_same(path_), 0) << tensor << index;
            support::set_element(path_, tensor, (index + 40) % 81, std::numeric_limits<float>::quiet_NaN());
            expect_same(path_);
        }
}

TEST_F(PiecesTest, ManyWrongValuesAreToldAsInTheWhole) {
    record_small();
    for (Index index = 3; index < 81; index += 4)
        support::set_element(path_, "step/0002/parameters", index, static_cast<float>(index));
    EXPECT_EQ(expect_same(path_), 5);
}

TEST_F(PiecesTest, AWrongMaskIsToldAsInTheWhole) {
    for (const char* tensor : {"step/0002/mask", "step/0003/next_mask", "step/0001/mask"})
        for (const Index index : {Index{5}, Index{29}, Index{53}, Index{80}, Index{81}, Index{87}}) {
            record_small();
            support::flip_mask_bit(path_, tensor, index);
            EXPECT_EQ(expect_same(path_), 5) << tensor << index;
        }
}

TEST_F(PiecesTest, WhatHangsTogetherIsCheckedAsAWhole) {
    record_small(trace::Replicas::copies);
    EXPECT_EQ(expect_same(path_), 0);
    // Different ranks are wrong in different pieces.
    support::set_element(path_, "step/0002/parameters/rank0", 2, 0.5F);
    support::set_element(path_, "step/0002/parameters/rank1", 50, 0.5F);
    EXPECT_EQ(expect_same(path_), 5);
    record_small(trace::Replicas::fingerprints);
    EXPECT_EQ(expect_same(path_), 0);
    record_small();
    support::set_element(path_, "step/0003/gradient/rank1", 60, std::numeric_limits<float>::infinity());
    EXPECT_EQ(expect_same(path_), 5) << "a step that must be refused, and was taken";
    record_small();
    support::set_element(path_, "step/0002/gradient/rank1", 60, 0x1p56F);
    change([](FileImage& image) { image.replace_in_config("\"beta1\":0.9", "\"beta1\":0.1"); });
    expect_same(path_);
    RecordOptions refused = support::small_run();
    refused.injections.push_back({2, 1, 17, std::numeric_limits<float>::quiet_NaN()});
    record(path_, refused);
    EXPECT_EQ(expect_same(path_), 0) << "refused, as it must be";
}

/// Requires that what all pieces need to know is also found piece by piece: run() throws otherwise.
void expect_step_by_step(const std::filesystem::path& path, ReferenceStart from) {
    const TraceReader trace(path);
    VerifyOptions options;
    options.threads = 2;
    EXPECT_NO_THROW(StepByStep<float>(trace, from, options, pieces_of(trace, 1)).run());
    EXPECT_NO_THROW(StepByStep<Bounded>(trace, from, options, pieces_of(trace, 20)).run());
}

TEST_F(PiecesTest, ClippedStepByStep) {
    for (const auto norm : {problem::NormVersion::ascending, problem::NormVersion::tree})
        for (const auto payload : {problem::Payload::fp32, problem::Payload::bf16}) {
            RecordOptions clipped = support::small_run();
            clipped.problem.settings.clip_norm = 0.25;
            clipped.problem.settings.norm = norm;
            clipped.problem.settings.payload = payload;
            record(path_, clipped);
            EXPECT_EQ(expect_same(path_), 0);
            expect_step_by_step(path_, ReferenceStart::recorded);
            expect_step_by_step(path_, ReferenceStart::start);
            clipped.begin = 2;
            record(path_, clipped);
            EXPECT_EQ(expect_same(path_), 0) << "from its middle on";
            expect_step_by_step(path_, ReferenceStart::recorded);
        }
}

TEST_F(PiecesTest, ANormOfManyBlocksIsThatOfTheWhole) {
    RecordOptions clipped = support::small_run();
    clipped.problem =
        problem::make_problem(problem::Algorithm::scape, 3,
                              problem::Layout({{"a", 9000, false}, {"b", 4095, true}, {"c", 8193, false}}),
                              problem::PartitionRule::by_tensor, clipped.problem.settings);
    clipped.problem.settings.clip_norm = 0.25;
    clipped.steps = 2;
    record(path_, clipped);
    EXPECT_EQ(expect_same(path_), 0);
    expect_step_by_step(path_, ReferenceStart::recorded);
}

TEST_F(PiecesTest, WhatIsWrongInAClippedRunIsToldAsInTheWhole) {
    RecordOptions clipped = support::small_run();
    clipped.problem.settings.clip_norm = 0.25;
    for (const char* tensor : {"step/0002/residual/rank2", "step/0004/first_moment",
                               "step/0002/gradient/rank0", "initial/parameters"}) {
        record(path_, clipped);
        support::set_element(path_, tensor, 60, 0.75F);
        EXPECT_GT(expect_same(path_), 0) << tensor;
        expect_step_by_step(path_, ReferenceStart::recorded);
    }
    for (const char* tensor : {"step/0002/mask", "step/0003/next_mask", "step/0001/mask"}) {
        record(path_, clipped);
        support::flip_mask_bit(path_, tensor, 29);
        EXPECT_EQ(expect_same(path_), 5) << tensor;
    }
}

TEST_F(PiecesTest, ARefusedStepIsRefusedInAllPieces) {
    RecordOptions refused = support::small_run();
    const float bad = std::numeric_limits<float>::infinity();
    refused.injections = {{2, 1, 70, bad}, {2, 2, 3, bad}, {2, 1, 40, bad}, {4, 0, 80, bad}};
    for (const double clip_norm : {0.0, 0.25}) {
        refused.problem.settings.clip_norm = clip_norm;
        record(path_, refused);
        EXPECT_EQ(expect_same(path_), 0) << clip_norm;
        expect_step_by_step(path_, ReferenceStart::recorded);
        expect_step_by_step(path_, ReferenceStart::start);
        support::set_element(path_, "step/0002/parameters", 60, 0.5F);
        EXPECT_EQ(expect_same(path_), 5) << "a step that was refused, and changed something";
        // The first by rank and then by index, wherever its piece is.
        EXPECT_TRUE(support::contains(verdict_by(path_, Level::exact(), ReferenceStart::recorded, 1, 2),
                                      "the gradient of rank 1, tensor"));
        EXPECT_TRUE(support::contains(verdict_by(path_, Level::exact(), ReferenceStart::recorded, 1, 2),
                                      "(coordinate 40)"));
    }
}

TEST_F(PiecesTest, ARunThatBreaksDownEndsInAllPieces) {
    RecordOptions options = support::small_run();
    options.learning_rate = 1e38;
    options.final_learning_rate = 1e38;
    options.problem.settings.weight_decay = 0.5;
    options.steps = 1;
    record(path_, options);
    change(
        [](FileImage& image) { std::get<std::vector<double>>(image.at("learning_rate").data) = {1e300}; });
    EXPECT_EQ(expect_same(path_), 5);
    EXPECT_TRUE(support::contains(verdict_by(path_, Level::exact(), ReferenceStart::start, 1, 2),
                                  "the reference stops here"));
}

TEST_F(PiecesTest, AdamsAndOtherPartitionsToo) {
    for (const auto algorithm : {problem::Algorithm::scape, problem::Algorithm::adams})
        for (const auto rule : {problem::PartitionRule::by_shard, problem::PartitionRule::by_tensor}) {
            record(path_, support::small_run(algorithm, {}, 3, rule));
            EXPECT_EQ(expect_same(path_), 0);
            support::set_element(path_, "step/0002/first_moment", 44, 3.0F);
            EXPECT_EQ(expect_same(path_), 5);
        }
}

} // namespace
} // namespace truestep::verify::scape
