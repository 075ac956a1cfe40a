// Tests traces whose ranks differ, recorded by rank: which one drifts.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/report.hpp>

#include "replicas_support.hpp"

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
    // By the fingerprints, the recorded vector is rank 0's.
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
            // The last parameter is in a segment of rank 2; the verdict names the rank whose copy
            // it is.
            flip_mask_bit(path_, "step/0002/" + std::string(result) + "/rank" + std::to_string(rank), 80);
            expect_place(verify(ReferenceStart::start), 2, result, rank, 80);
            EXPECT_EQ(mismatched(verify(ReferenceStart::start)), 1);
            expect_place(verify(ReferenceStart::recorded), 2, result, rank, 80);
            expect_place(verify(ReferenceStart::start, Level::rel()), 2, result, rank, 80);
            copies_to_fingerprints();
            const TraceVerdict verdict = verify(ReferenceStart::start);
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
    TraceVerdict verdict = verify(ReferenceStart::recorded, Level::rel());
    expect_place(verdict, 4, "parameters", 1, 44);
    EXPECT_TRUE(verdict.first->between_ranks);
    EXPECT_TRUE(contains(verdict.first->note, "have to be the same on all ranks")) << verdict.first->note;
    EXPECT_EQ(mismatched(verdict), 1);
    EXPECT_EQ(row(verdict, "parameters").compared, 5 * 3 * 81);
    up(0);
    expect_place(verify(ReferenceStart::recorded, Level::rel()), 4, "parameters", 2, 44);
    up(2);
    EXPECT_EQ(verify(ReferenceStart::recorded, Level::rel()).status, Status::passed);
    expect_place(verify(ReferenceStart::recorded), 4, "parameters", all_ranks, 44);
}

TEST_F(ReplicasTest, OfTwoRanksRankZerosCountsAtRel) {
    record_small(trace::Replicas::copies, 2);
    const auto value = element<float>(path_, "step/0001/parameters/rank0", 3);
    set_element(path_, "step/0001/parameters/rank0", 3, std::nextafter(value, 1000.0F));
    expect_place(verify(ReferenceStart::recorded, Level::rel()), 1, "parameters", 1, 3);
    expect_place(verify(ReferenceStart::recorded), 1, "parameters", 0, 3);
    copies_to_fingerprints();
    expect_place(verify(ReferenceStart::start, Level::rel()), 1, "parameters", 1, std::nullopt);
    EXPECT_EQ(verify(ReferenceStart::start).first.value().rank, 0) << "the reference knows";
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
        const TraceVerdict verdict = verify(ReferenceStart::start);
        expect_place(verdict, 3, "parameters", 2,
                     replicas == trace::Replicas::copies ? std::optional<Index>(40) : std::nullopt);
        EXPECT_EQ(verdict.first->phase, name(Phase::check));
        EXPECT_TRUE(contains(verdict.first->note, "changed parameters of rank 2 after it"))
            << verdict.first->note;
    }
}

} // namespace
} // namespace truestep::verify::scape
