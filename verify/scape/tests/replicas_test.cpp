// What has to be the same on all ranks, recorded by rank: copies, and fingerprints.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <scape/trace/fingerprint.hpp>
#include <scape/verify/diff.hpp>
#include <scape/verify/record.hpp>
#include <scape/verify/report.hpp>
#include <scape/verify/verify_trace.hpp>

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
using support::run_tool;
using support::SafetensorsFile;
using support::set_element;
using support::TemporaryFolder;

constexpr int all_ranks = Divergence::all_ranks;
std::uint64_t fingerprint_of(const FileImage::Tensor& tensor) {
    if (const auto* floats = std::get_if<std::vector<float>>(&tensor.data))
        return trace::fingerprint(std::span<const float>(*floats));
    return trace::fingerprint(
        std::span<const std::uint8_t>(std::get<std::vector<std::uint8_t>>(tensor.data)));
}

class ReplicasTest : public testing::Test {
  protected:
    ReplicasTest() : path_(folder_ / "trace.safetensors") {}

    void record_small(trace::Replicas replicas, int workers = 3,
                      problem::Algorithm algorithm = problem::Algorithm::scape) const {
        problem::HyperParameters settings;
        settings.weight_decay = 0.1;
        RecordOptions options = support::small_run(algorithm, settings, workers);
        options.replicas = replicas;
        record(path_, options);
    }

    template <class Change>
    void change(Change change_image) const {
        FileImage image(path_);
        change_image(image);
        image.save(path_);
    }

    [[nodiscard]] TraceVerdict verify(From from = From::recorded, Level level = Level::exact()) const {
        VerifyOptions options;
        options.from = from;
        options.level = level;
        return verify_trace(path_, options);
    }

    [[nodiscard]] std::string refusal() const {
        return error_of([&] { static_cast<void>(verify_trace(path_, {})); });
    }

    /// Both ways to check, at both levels that a trace can have.
    template <class Check>
    void everywhere(Check check) const {
        for (const From from : {From::recorded, From::start})
            for (const Level& level : {Level::exact(), Level::rel()}) {
                SCOPED_TRACE(name(from) + ", " + name(level));
                check(verify(from, level));
            }
    }

    /// A trace with copies becomes one with fingerprints: of each rank's own, and of rank 0's the vector.
    void copies_to_fingerprints() const {
        FileImage image(path_);
        std::vector<FileImage::Tensor> tensors;
        for (FileImage::Tensor& tensor : image.tensors) {
            const auto rank = tensor.name.rfind("/rank");
            const std::string result = tensor.name.substr(0, rank);
            bool replicated = false;
            for (const ResultKind& kind : result_kinds)
                replicated =
                    replicated || (is_replicated(kind) && result.ends_with("/" + std::string(kind.name)));
            if (rank == std::string::npos || !replicated) {
                tensors.push_back(std::move(tensor));
                continue;
            }
            if (tensor.name.ends_with("/rank0"))
                tensors.push_back({result + "/fingerprint", {0}, std::vector<std::uint64_t>{}});
            for (FileImage::Tensor& other : tensors)
                if (other.name == result + "/fingerprint") {
                    std::get<std::vector<std::uint64_t>>(other.data).push_back(fingerprint_of(tensor));
                    ++other.shape[0];
                }
            if (tensor.name.ends_with("/rank0")) {
                tensor.name = result;
                tensors.push_back(std::move(tensor));
            }
        }
        image.tensors = std::move(tensors);
        image.save(path_);
    }

    TemporaryFolder folder_;
    std::filesystem::path path_;
};

/// Rank 2 leaves out the decay of step 3: w + lr * wd * w_before in place of w, at all coordinates.
void skip_decay_on_rank_2(FileImage& image) {
    const auto before = std::get<std::vector<float>>(image.at("step/0002/parameters/rank2").data);
    const double rate = std::get<std::vector<double>>(image.at("learning_rate").data)[2];
    auto& parameters = std::get<std::vector<float>>(image.at("step/0003/parameters/rank2").data);
    for (std::size_t i = 0; i < parameters.size(); ++i)
        parameters[i] += static_cast<float>(rate * 0.1 * static_cast<double>(before[i]));
}

void expect_place(const TraceVerdict& verdict, Index step, const std::string& result, int rank,
                  std::optional<Index> coordinate) {
    EXPECT_EQ(verdict.status, Status::failed);
    ASSERT_TRUE(verdict.first.has_value());
    EXPECT_EQ(verdict.first->step, step);
    EXPECT_EQ(verdict.first->result, result);
    EXPECT_EQ(verdict.first->rank, rank);
    EXPECT_EQ(verdict.first->index, coordinate);
}

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
    // Written by somebody else, rank 0's copy is no error.
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
    const TraceVerdict verdict = verify(From::start);
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_EQ(row(verdict, "parameters").compared, 5 * 3);
    EXPECT_EQ(verify(From::start, Level::rel()).status, Status::untested)
        << "they are alike, which is all that REL can see of them";
    set_element(path_, "step/0005/next_mask/fingerprint", 1, std::uint64_t{7});
    expect_place(verify(From::start), 5, "next_mask", 1, std::nullopt);
    expect_place(verify(From::start, Level::rel()), 5, "next_mask", 1, std::nullopt);
}

// One rank that drifts.

TEST_F(ReplicasTest, ARankThatSkipsOneDecayIsNamedByItsCopy) {
    record_small(trace::Replicas::copies);
    change(skip_decay_on_rank_2);
    everywhere([](const TraceVerdict& verdict) {
        expect_place(verdict, 3, "parameters", 2, 0);
        EXPECT_EQ(verdict.first->phase, name(Phase::update));
        EXPECT_TRUE(
            contains(text_report(verdict),
                     "step 3, phase update, parameters of rank 2, tensor wq, index 0 (coordinate 0)"));
        EXPECT_TRUE(contains(verdict.first->note, "rank 2")) << verdict.first->note;
    });
    const TraceVerdict exact = verify();
    EXPECT_EQ(row(exact, "parameters").mismatched, mismatched(exact)) << "and nothing else is wrong";
    EXPECT_GT(mismatched(exact), 70);
}

TEST_F(ReplicasTest, ARankThatSkipsOneDecayIsNamedByItsFingerprint) {
    record_small(trace::Replicas::copies);
    change(skip_decay_on_rank_2);
    copies_to_fingerprints();
    everywhere([](const TraceVerdict& verdict) {
        expect_place(verdict, 3, "parameters", 2, std::nullopt);
        EXPECT_EQ(mismatched(verdict), 1);
        const std::string text = text_report(verdict);
        EXPECT_TRUE(contains(text, "first divergence: step 3, phase update, parameters of rank 2\n"))
            << text;
        EXPECT_TRUE(contains(text, "needs a trace with copies")) << text;
    });
    EXPECT_EQ(json_report(verify())["first_divergence"]["rank"], 2);
}

TEST_F(ReplicasTest, RankZeroIsNotTakenForRight) {
    record_small(trace::Replicas::copies);
    const auto value = element<float>(path_, "step/0002/first_moment/rank0", 31);
    set_element(path_, "step/0002/first_moment/rank0", 31, value + 1.0F);
    everywhere([](const TraceVerdict& verdict) { expect_place(verdict, 2, "first_moment", 0, 31); });
    copies_to_fingerprints();
    // The vector that is recorded is rank 0's, by the fingerprints.
    everywhere([](const TraceVerdict& verdict) { expect_place(verdict, 2, "first_moment", 0, 31); });
}

TEST_F(ReplicasTest, OneBitOfTheLastRanksLastElementAtTheLastStep) {
    for (const char* result : {"parameters", "first_moment"}) {
        record_small(trace::Replicas::copies);
        const std::string copy = "step/0005/" + std::string(result) + "/rank2";
        const auto bits = std::bit_cast<std::uint32_t>(element<float>(path_, copy, 80));
        set_element(path_, copy, 80, bits ^ 1U);
        everywhere([&](const TraceVerdict& verdict) {
            expect_place(verdict, 5, result, 2, 80);
            EXPECT_EQ(mismatched(verdict), 1);
        });
        copies_to_fingerprints();
        everywhere([&](const TraceVerdict& verdict) {
            expect_place(verdict, 5, result, 2, std::nullopt);
            EXPECT_EQ(mismatched(verdict), 1);
        });
    }
}

TEST_F(ReplicasTest, OneFlippedMaskBitOnOneRank) {
    for (const char* result : {"mask", "next_mask"})
        for (const int rank : {0, 1, 2}) {
            SCOPED_TRACE(result + std::to_string(rank));
            record_small(trace::Replicas::copies);
            // The last parameter is in a segment of rank 2; whose copy it is, is what is named.
            flip_mask_bit(path_, "step/0002/" + std::string(result) + "/rank" + std::to_string(rank), 80);
            expect_place(verify(From::start), 2, result, rank, 80);
            EXPECT_EQ(mismatched(verify(From::start)), 1);
            expect_place(verify(From::recorded), 2, result, rank, 80);
            expect_place(verify(From::start, Level::rel()), 2, result, rank, 80);
            copies_to_fingerprints();
            const TraceVerdict verdict = verify(From::start);
            EXPECT_EQ(verdict.first.value().rank, rank);
            EXPECT_EQ(verdict.first.value().result, result);
        }
}

TEST_F(ReplicasTest, ABitBeyondTheLastParameterOnOneRank) {
    record_small(trace::Replicas::copies);
    flip_mask_bit(path_, "step/0005/next_mask/rank1", 87);
    everywhere([](const TraceVerdict& verdict) { expect_place(verdict, 5, "next_mask", 1, 87); });
}

TEST_F(ReplicasTest, TheSignOfZeroOnOneRank) {
    record_small(trace::Replicas::copies);
    Index coordinate = 80;
    while (mask_bit(path_, "step/0004/mask/rank0", coordinate))
        --coordinate;
    ASSERT_EQ(
        std::bit_cast<std::uint32_t>(element<float>(path_, "step/0004/first_moment/rank1", coordinate)),
        0U);
    set_element(path_, "step/0004/first_moment/rank1", coordinate, -0.0F);
    everywhere(
        [&](const TraceVerdict& verdict) { expect_place(verdict, 4, "first_moment", 1, coordinate); });
}

TEST_F(ReplicasTest, ANanOnOneRank) {
    record_small(trace::Replicas::copies);
    set_element(path_, "step/0004/parameters/rank1", 17, std::numeric_limits<float>::quiet_NaN());
    everywhere([](const TraceVerdict& verdict) { expect_place(verdict, 4, "parameters", 1, 17); });
}

TEST_F(ReplicasTest, AtRelAllMayRoundAlikeButNotEachAnotherWay) {
    record_small(trace::Replicas::copies);
    const auto up = [&](int rank) {
        const std::string copy = "step/0004/parameters/rank" + std::to_string(rank);
        set_element(path_, copy, 44, std::nextafter(element<float>(path_, copy, 44), 1000.0F));
    };
    up(1);
    TraceVerdict verdict = verify(From::recorded, Level::rel());
    expect_place(verdict, 4, "parameters", 1, 44);
    EXPECT_TRUE(verdict.first->between_ranks);
    EXPECT_TRUE(contains(verdict.first->note, "have to be the same on all ranks")) << verdict.first->note;
    EXPECT_EQ(mismatched(verdict), 1);
    EXPECT_EQ(row(verdict, "parameters").compared, 5 * 3 * 81);
    up(0);
    expect_place(verify(From::recorded, Level::rel()), 4, "parameters", 2, 44);
    up(2);
    EXPECT_EQ(verify(From::recorded, Level::rel()).status, Status::passed);
    expect_place(verify(From::recorded), 4, "parameters", all_ranks, 44);
}

TEST_F(ReplicasTest, OfTwoRanksRankZerosCountsAtRel) {
    record_small(trace::Replicas::copies, 2);
    const auto value = element<float>(path_, "step/0001/parameters/rank0", 3);
    set_element(path_, "step/0001/parameters/rank0", 3, std::nextafter(value, 1000.0F));
    expect_place(verify(From::recorded, Level::rel()), 1, "parameters", 1, 3);
    expect_place(verify(From::recorded), 1, "parameters", 0, 3);
    copies_to_fingerprints();
    expect_place(verify(From::start, Level::rel()), 1, "parameters", 1, std::nullopt);
    EXPECT_EQ(verify(From::start).first.value().rank, 0) << "the reference knows";
}

TEST_F(ReplicasTest, FingerprintsOfSomethingElseAreNoFingerprintsOfTheVector) {
    record_small(trace::Replicas::fingerprints);
    for (const Index rank : {0, 1, 2})
        set_element(path_, "step/0005/parameters/fingerprint", rank, std::uint64_t{12345});
    everywhere([](const TraceVerdict& verdict) {
        expect_place(verdict, 5, "parameters", all_ranks, std::nullopt);
    });
}

TEST_F(ReplicasTest, CopiesAndFingerprintsThatContradictEachOther) {
    record_small(trace::Replicas::copies);
    change([](FileImage& image) {
        const std::uint64_t right = fingerprint_of(image.at("step/0003/parameters/rank0"));
        image.tensors.push_back(
            {"step/0003/parameters/fingerprint", {3}, std::vector<std::uint64_t>{right, right, right + 1}});
    });
    everywhere([](const TraceVerdict& verdict) {
        expect_place(verdict, 3, "parameters", 2, std::nullopt);
        EXPECT_FALSE(contains(verdict.first->note, "needs a trace")) << "it is one";
    });
}

TEST_F(ReplicasTest, ARefusedStepThatOneRankTook) {
    for (const trace::Replicas replicas : {trace::Replicas::copies, trace::Replicas::fingerprints}) {
        problem::HyperParameters settings;
        RecordOptions options = support::small_run(problem::Algorithm::scape, settings);
        options.replicas = replicas;
        options.injections = {{3, 1, 17, std::numeric_limits<float>::quiet_NaN()}};
        record(path_, options);
        EXPECT_EQ(verify().status, Status::passed);
        if (replicas == trace::Replicas::copies)
            set_element(path_, "step/0003/parameters/rank2", 40, 9.0F);
        else
            set_element(path_, "step/0003/parameters/fingerprint", 2, std::uint64_t{9});
        const TraceVerdict verdict = verify(From::start);
        expect_place(verdict, 3, "parameters", 2,
                     replicas == trace::Replicas::copies ? std::optional<Index>(40) : std::nullopt);
        EXPECT_EQ(verdict.first->phase, name(Phase::check));
        EXPECT_TRUE(contains(verdict.first->note, "changed parameters of rank 2 after it"))
            << verdict.first->note;
    }
}

// What is no such trace.

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
} // namespace scape::verify
