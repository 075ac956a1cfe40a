// Tests results that must be the same on all ranks, recorded by rank: copies, and fingerprints.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/diff.hpp>
#include <truestep/verify/report.hpp>

#include "replicas_support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::error_of;
using support::FileImage;
using support::row;
using support::run_tool;
using support::SafetensorsFile;
using support::set_element;

bool has_note(const TraceVerdict& verdict, const std::string& text) {
    for (const std::string& note : verdict.notes)
        if (note == text)
            return true;
    return false;
}

// Right traces.

TEST_F(ReplicasTest, OneCopyIsSaidToBeOne) {
    record_small(trace::Replicas::none);
    const TraceVerdict verdict = verify();
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_TRUE(
        has_note(verdict, "replicas: not recorded: one copy of what has to be the same on all ranks"));
    EXPECT_TRUE(contains(text_report(verdict), "  note: replicas: not recorded: one copy of what"));
    EXPECT_EQ(json_report(verdict)["notes"][0], std::string(replicas_not_recorded));
}

TEST_F(ReplicasTest, OneRankHasNone) {
    for (const trace::Replicas replicas :
         {trace::Replicas::none, trace::Replicas::copies, trace::Replicas::fingerprints}) {
        record_small(replicas, 1);
        const TraceVerdict verdict = verify();
        EXPECT_EQ(verdict.status, Status::passed);
        EXPECT_FALSE(contains(text_report(verdict), "replicas"));
    }
    // Another tool's name for the one copy, rank 0's, is no error.
    change([](FileImage& image) { image.at("step/0002/parameters").name = "step/0002/parameters/rank0"; });
    EXPECT_EQ(verify().status, Status::passed);
}

TEST_F(ReplicasTest, CopiesThatAreRightPass) {
    record_small(trace::Replicas::copies);
    EXPECT_EQ(SafetensorsFile(path_).find("step/0001/parameters"), nullptr) << "rank 0's says it";
    EXPECT_TRUE(TraceReader(path_).unknown().empty());
    EXPECT_TRUE(TraceReader(path_).missing().empty());
    EXPECT_TRUE(TraceReader(path_).states_recorded());
    everywhere([](const TraceVerdict& verdict) {
        EXPECT_EQ(verdict.status, Status::passed);
        EXPECT_TRUE(has_note(verdict, "replicas: 20 results compared on all 3 ranks"));
        EXPECT_EQ(row(verdict, "parameters").compared, 5 * 3 * 81);
        EXPECT_EQ(row(verdict, "residual").compared, 5 * 3 * 81) << "each rank's is another";
    });
}

TEST_F(ReplicasTest, FingerprintsThatAreRightPass) {
    record_small(trace::Replicas::fingerprints);
    EXPECT_NE(SafetensorsFile(path_).find("step/0001/parameters"), nullptr);
    EXPECT_TRUE(TraceReader(path_).unknown().empty());
    everywhere([](const TraceVerdict& verdict) {
        EXPECT_EQ(verdict.status, Status::passed);
        EXPECT_TRUE(has_note(verdict, "replicas: fingerprints of 20 results compared on all 3 ranks"));
        EXPECT_EQ(row(verdict, "parameters").compared, 5 * (81 + 3));
    });
}

TEST_F(ReplicasTest, TheTwoSayTheSame) {
    record_small(trace::Replicas::fingerprints);
    const auto written = support::load(path_);
    const FileImage of_the_writer(path_);
    record_small(trace::Replicas::copies);
    copies_to_fingerprints();
    FileImage of_the_copies(path_);
    for (const FileImage::Tensor& tensor : of_the_writer.tensors) {
        EXPECT_EQ(of_the_copies.at(tensor.name).data, tensor.data) << tensor.name;
        EXPECT_EQ(of_the_copies.at(tensor.name).shape, tensor.shape) << tensor.name;
    }
    EXPECT_EQ(of_the_copies.tensors.size(), of_the_writer.tensors.size());
}

TEST_F(ReplicasTest, AdamsHasThemToo) {
    for (const trace::Replicas replicas : {trace::Replicas::copies, trace::Replicas::fingerprints}) {
        record_small(replicas, 3, problem::Algorithm::adams);
        EXPECT_EQ(verify().status, Status::passed);
    }
}

TEST_F(ReplicasTest, WhatIsRecordedOnceBesideThemIsComparedAndCounted) {
    record_small(trace::Replicas::copies);
    change([](FileImage& image) {
        auto shared = image.at("step/0004/parameters/rank1");
        shared.name = "step/0004/parameters";
        image.tensors.push_back(shared);
        image.at("step/0005/mask/rank0").name = "step/0005/mask";
        image.drop("step/0005/mask/rank");
    });
    const TraceVerdict verdict = verify();
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_EQ(row(verdict, "parameters").compared, (5 * 3 + 1) * 81);
    EXPECT_TRUE(has_note(verdict, "replicas: 19 results compared on all 3 ranks"));
    EXPECT_TRUE(has_note(
        verdict, "replicas: 1 result recorded as one copy of what has to be the same on all ranks"));
    set_element(path_, "step/0004/parameters", 80, 9.0F);
    everywhere([](const TraceVerdict& wrong) { expect_place(wrong, 4, "parameters", all_ranks, 80); });
}

TEST_F(ReplicasTest, FingerprintsAloneAreCompared) {
    record_small(trace::Replicas::fingerprints);
    change([](FileImage& image) {
        std::erase_if(image.tensors, [](const FileImage::Tensor& tensor) {
            return tensor.name.starts_with("step/") && !contains(tensor.name, "/gradient/") &&
                   !tensor.name.ends_with("/fingerprint");
        });
    });
    const TraceVerdict verdict = verify(ReferenceStart::start);
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_EQ(row(verdict, "parameters").compared, 5 * 3);
    EXPECT_EQ(verify(ReferenceStart::start, Level::rel()).status, Status::untested)
        << "they are alike, which is all that REL can see of them";
    set_element(path_, "step/0005/next_mask/fingerprint", 1, std::uint64_t{7});
    expect_place(verify(ReferenceStart::start), 5, "next_mask", 1, std::nullopt);
    expect_place(verify(ReferenceStart::start, Level::rel()), 5, "next_mask", 1, std::nullopt);
}

// Invalid traces.

TEST_F(ReplicasTest, ACopyThatIsMissingIsNamed) {
    for (const char* rank : {"rank0", "rank1", "rank2"}) {
        record_small(trace::Replicas::copies);
        const std::string copy = "step/0002/parameters/" + std::string(rank);
        change([&](FileImage& image) { image.drop(copy); });
        const std::string error = refusal();
        EXPECT_TRUE(contains(error, path_.string())) << error;
        EXPECT_TRUE(contains(error, copy + " is missing; record every rank's, or none")) << error;
    }
    change([](FileImage& image) { image.drop("step/0002/parameters/rank1"); });
    EXPECT_TRUE(contains(refusal(), "step/0002/parameters/rank1, step/0002/parameters/rank2 are missing"));
}

TEST_F(ReplicasTest, AnotherShapeOrTypeIsRefused) {
    record_small(trace::Replicas::fingerprints);
    change([](FileImage& image) {
        auto& tensor = image.at("step/0003/mask/fingerprint");
        tensor.data = std::vector<std::uint64_t>{1, 2};
        tensor.shape = {2};
    });
    EXPECT_TRUE(contains(refusal(), "step/0003/mask/fingerprint is U64[2]; the config asks for U64[3]"));
    change([](FileImage& image) {
        auto& tensor = image.at("step/0003/mask/fingerprint");
        tensor.data = std::vector<double>{1, 2, 3};
        tensor.shape = {3};
    });
    EXPECT_TRUE(contains(refusal(), "is F64[3]; the config asks for U64[3]"));
    record_small(trace::Replicas::copies);
    change([](FileImage& image) {
        auto& tensor = image.at("step/0003/mask/rank2");
        tensor.data = std::vector<std::uint8_t>(12);
        tensor.shape = {12};
    });
    EXPECT_TRUE(contains(refusal(), "step/0003/mask/rank2 is U8[12]; the config asks for U8[11]"));
}

TEST_F(ReplicasTest, ARankTooManyAndACopyOfAnIntermediateAreWithoutAMeaning) {
    record_small(trace::Replicas::copies);
    change([](FileImage& image) {
        for (const char* name :
             {"step/0001/parameters/rank3", "step/0001/exchanged/rank0", "step/0001/residual/fingerprint"})
            image.tensors.push_back({name, {1}, std::vector<float>{1.0F}});
    });
    EXPECT_EQ(TraceReader(path_).unknown().size(), 3U);
}

TEST(Replicas, NamesAndBack) {
    for (const trace::Replicas replicas :
         {trace::Replicas::none, trace::Replicas::copies, trace::Replicas::fingerprints})
        EXPECT_EQ(trace::parse_replicas(std::string(name(replicas))), replicas);
    EXPECT_TRUE(contains(error_of([] { static_cast<void>(trace::parse_replicas("copy")); }),
                         "--replicas is 'copy'; it must be none, copies or fingerprints"));
}

// The other commands.

TEST_F(ReplicasTest, ADiffComparesWhatBothHold) {
    const auto other = folder_ / "other.safetensors";
    for (const trace::Replicas replicas : {trace::Replicas::copies, trace::Replicas::fingerprints}) {
        record_small(replicas);
        std::filesystem::copy_file(path_, other, std::filesystem::copy_options::overwrite_existing);
        EXPECT_TRUE(diff_traces(TraceReader(path_), TraceReader(other)).same());
        if (replicas == trace::Replicas::copies)
            set_element(path_, "step/0004/parameters/rank2", 33, 9.0F);
        else
            set_element(path_, "step/0004/parameters/fingerprint", 2, std::uint64_t{9});
        const TraceDifference difference = diff_traces(TraceReader(path_), TraceReader(other));
        ASSERT_TRUE(difference.result.has_value());
        EXPECT_EQ(difference.result->step, 4);
        EXPECT_EQ(difference.result->rank, 2);
        EXPECT_EQ(difference.result->index.has_value(), replicas == trace::Replicas::copies);
        EXPECT_TRUE(contains(text_report(difference, "a", "b"), "parameters of rank 2"));
    }
}

TEST_F(ReplicasTest, ADiffWithATraceThatHoldsOneCopySaysWhatItLeavesOut) {
    const auto other = folder_ / "other.safetensors";
    record_small(trace::Replicas::none);
    std::filesystem::copy_file(path_, other);
    record_small(trace::Replicas::copies);
    const TraceDifference difference = diff_traces(TraceReader(path_), TraceReader(other));
    EXPECT_TRUE(difference.same());
    EXPECT_EQ(difference.compared, 5 * 81 * (2 * 3 + 6));
    ASSERT_EQ(difference.notes.size(), 4U);
    EXPECT_TRUE(contains(difference.notes[3], "each rank's own parameters is not compared: only"));
    record_small(trace::Replicas::fingerprints);
    EXPECT_EQ(diff_traces(TraceReader(path_), TraceReader(other)).notes.size(), 4U);
    EXPECT_EQ(diff_traces(TraceReader(other), TraceReader(path_)).notes.size(), 4U);
}

TEST_F(ReplicasTest, TheToolRecordsVerifiesAndDiffsThem) {
    for (const char* replicas : {"none", "copies", "fingerprints"}) {
        const auto recorded = run_tool({"record", "-o", path_.string(), "--replicas", replicas});
        EXPECT_EQ(recorded.status, 0) << recorded.errors;
        const auto verified = run_tool({"verify", path_.string()});
        EXPECT_EQ(verified.status, 0) << verified.output;
        EXPECT_TRUE(contains(verified.output, "note: replicas: "));
        EXPECT_EQ(run_tool({"diff", path_.string(), path_.string()}).status, 0);
        const auto brief = run_tool({"verify", "--brief", path_.string(), path_.string()});
        EXPECT_EQ(contains(brief.output, "note: of 2 traces: replicas: not recorded"),
                  std::string(replicas) == "none")
            << brief.output;
    }
    const auto wrong = run_tool({"record", "-o", path_.string(), "--replicas", "all"});
    EXPECT_EQ(wrong.status, 2);
    EXPECT_TRUE(contains(wrong.errors, "--replicas is 'all'"));
}

} // namespace
} // namespace truestep::verify::scape
