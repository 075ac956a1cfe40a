// Recordings of a boundary as traces: the clean ones pass, and each known bug is reported where it is made.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/verify/mapl/traces.hpp>

#include "boundary_recording.hpp"
#include "implementation.hpp"
#include "planted/diagnosis.hpp"
#include "planted/plain.hpp"

namespace truestep::properties::mapl {
namespace {

namespace fs = std::filesystem;

class MaplTraces : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ =
            fs::temp_directory_path() /
            ("mapl_traces_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] verify::mapl::Recording recorded(const EndFactory& subjects,
                                                   const std::string& line) const {
        const GroupImplementation candidate("any", subjects,
                                            gate::make_thread_group(std::chrono::seconds(20)));
        const Scenario scenario = scenario_of(spec().parse(line));
        return recording_of(scenario, candidate.run(scenario), 0);
    }
    [[nodiscard]] verify::TraceVerdict verified(const verify::mapl::Recording& recording,
                                                const verify::Level& level) const {
        const fs::path path = folder_ / "run.safetensors";
        verify::mapl::write(path, recording, "traces_test");
        verify::VerifyOptions options;
        options.level = level;
        return verify::mapl::verify_trace(path, options);
    }

    fs::path folder_;
};

const std::string usual = "rank=2,width=5,tokens=5,vocabulary=3,micro=2,steps=3,seed=1,data=normal";

/// The usual case with other settings, ",key=value" each.
std::string usual_but(const std::string& more) {
    std::istringstream settings(usual);
    std::string line = more;
    for (std::string one; std::getline(settings, one, ',');)
        if (more.find("," + one.substr(0, one.find('=') + 1)) == std::string::npos)
            line += "," + one;
    return line.substr(1);
}

/// A case with codewords and with sums of few bits, which are exact.
const std::string few_bits_coded =
    "rank=2,width=4,tokens=40,vocabulary=3,micro=1,steps=1,seed=1,anchors=two,codewords=12,rounds=2";

verify::mapl::Recording without_new_state(verify::mapl::Recording of) {
    for (const char* what : {"m", "A", "A_receiver"})
        of.vectors.erase(verify::mapl::of_step(1, what));
    return of;
}

TEST_F(MaplTraces, OfTheCleanPass) {
    for (const EndFactory& subjects : {host_ends(), plain_ends(nothing)})
        for (const char* more :
             {",anchors=none", ",anchors=fixed", ",anchors=shared,order=momentum_first",
              ",anchors=two,schedule=1f1b", ",anchors=two,payload=bf16", ",workers=3", ",codewords=6",
              ",anchors=two,codewords=6,groups=2,rounds=2,subsets=3,restart=1",
              ",codewords=1,payload=bf16,schedule=1f1b"}) {
            const verify::TraceVerdict verdict =
                verified(recorded(subjects, usual + more), verify::Level::rel());
            EXPECT_EQ(verdict.status, verify::Status::passed)
                << more << (verdict.first ? verdict.first->result + ": " + verdict.first->note : "");
        }
    // Sums have few bits and A stays, so this is exact.
    const verify::mapl::Recording exact = without_new_state(
        recorded(host_ends(), "rank=2,width=4,tokens=5,vocabulary=3,micro=2,steps=1,seed=1,anchors=two"));
    EXPECT_EQ(verified(exact, verify::Level::exact()).status, verify::Status::passed);
}

TEST_F(MaplTraces, OfCodewordsToTheBit) {
    const auto of = [&](Wrong wrong) {
        return verified(without_new_state(recorded(plain_ends(wrong), few_bits_coded)),
                        verify::Level::exact());
    };
    EXPECT_EQ(of(nothing).status, verify::Status::passed);
    const verify::TraceVerdict verdict = of(ties_to_higher);
    ASSERT_TRUE(verdict.first);
    EXPECT_EQ(verdict.first->phase, "encode");
    EXPECT_EQ(verdict.first->result, "indices.1");
    EXPECT_NE(verdict.first->note.find("is not the nearest, or not the first of those"), std::string::npos)
        << verdict.first->note;
}

struct ExpectedMessage {
    Wrong wrong;
    const char* more;
    const char* phase;
    const char* result; ///< its beginning
    Index step = 1;
};

TEST_F(MaplTraces, OfAMistakeFailWhereItIsMade) {
    const ExpectedMessage all[]{
        {sender_part_only, "", "gradient", "gradient"},
        {receiver_part_only, "", "gradient", "gradient"},
        {parts_averaged, "", "gradient", "gradient"},
        {updated_on_one_side, "", "subspace", "A_receiver"},
        {shipped_late, "", "subspace", "A_receiver"},
        // A^T g is symmetric by itself as long as Z is Q A and dZ is G A.
        {sym_forgotten, ",payload=bf16", "momentum", "m"},
        {projected_with_old, "", "momentum", "m", 2},
        {not_retracted, "", "subspace", "A"},
        {not_transposed_back, "", "subspace", "A"},
        {polar_of_gradient, "", "subspace", "A", 2},
        {momentum_after_polar, "", "momentum", "m"},
        {senders_anchor, ",anchors=two", "decompress", "Xhat.1"},
        {rows_not_orthonormal, ",anchors=two", "compress", "Z.1"},
        {anchor_gradient_sign, ",anchors=two", "gradient", "dE_sender"},
        {anchor_gradient_overwritten, ",anchors=two", "gradient", "dE_"},
        {ids_as_bf16, ",anchors=two,vocabulary=300", "decompress", "Xhat"},
        {ids_of_another, ",anchors=two", "decompress", "Xhat"},
        {dx_without_a, "", "decompress_gradient", "dX"},
        {divided_by_micro_batches, "", "gradient", "gradient"},
        {momentum_not_kept, ",restart=1", "momentum", "m"},
        {anchor_not_subtracted, ",anchors=two", "compress", "Z.1"},
        {shared_gradient_not_summed, ",anchors=shared", "gradient", "dE_"},
        {activations_kept_by_order, "", "gradient", "gradient"},
        {payload_cut_off, ",payload=bf16", "compress", "Z.1"},
        {payload_of_activations, ",payload=bf16", "compress", "Z.1"},
        {newer_codebook_decodes, ",codewords=6", "decompress", "Xhat.1"},
        {learning_copy_encodes, ",codewords=6,subsets=3", "encode", "indices", 2},
        {cursor_not_kept, ",codewords=6,subsets=3,restart=1", "learn", "codewords.1", 2},
        {residual_not_subtracted, ",codewords=6,rounds=2", "encode", "indices.1"},
        {packed_within_bytes, ",codewords=20,rounds=3", "encode", "indices.1"},
        {zero_word_learned, ",codewords=2", "learn", "codewords.1"},
        {unused_words_decay, ",codewords=6", "learn", "codewords.1"},
        {averaged_over_all, ",codewords=6", "learn", "codewords.1"},
        {one_order_for_all_turns, ",codewords=6,subsets=3", "learn", "codewords.2", 2},
        {learned_not_kept, ",codewords=6,subsets=3,restart=1", "learn", "L"},
    };
    for (const ExpectedMessage& told : all) {
        const verify::TraceVerdict verdict =
            verified(recorded(plain_ends(told.wrong), usual_but(told.more)), verify::Level::rel());
        EXPECT_EQ(verdict.status, verify::Status::failed) << told.wrong;
        EXPECT_TRUE(verdict.first) << told.wrong;
        if (!verdict.first)
            continue;
        EXPECT_EQ(verdict.first->phase, told.phase) << told.wrong << " " << verdict.first->result;
        EXPECT_TRUE(verdict.first->result.starts_with(told.result))
            << told.wrong << " " << verdict.first->result;
        EXPECT_EQ(verdict.first->step, told.step) << told.wrong;
    }
}

/// The first of the lines that name the known bug.
TEST_F(MaplTraces, TheMistakeIsNamed) {
    const ExpectedMessage all[]{
        {sender_part_only, "", "", ""},
        {receiver_part_only, ",anchors=two", "", ""},
        {parts_averaged, ",steps=1", "", ""},
        {updated_on_one_side, "", "", ""},
        {sym_forgotten, ",payload=bf16", "", ""},
        {projected_with_old, "", "", ""},
        {not_retracted, ",order=momentum_first", "", ""},
        {not_transposed_back, "", "", ""},
        {polar_of_gradient, "", "", ""},
        {momentum_after_polar, "", "", ""},
        {senders_anchor, ",anchors=two", "", ""},
        {rows_not_orthonormal, ",anchors=two", "", ""},
        {anchor_gradient_sign, ",anchors=two,schedule=1f1b", "", ""},
        {anchor_gradient_overwritten, ",anchors=two", "", ""},
        {ids_as_bf16, ",anchors=two,vocabulary=300", "", ""},
        {ids_of_another, ",anchors=two", "", ""},
        {dx_without_a, "", "", ""},
        {divided_by_micro_batches, ",micro=3", "", ""},
        {anchor_not_subtracted, ",anchors=two", "", ""},
        {activations_kept_by_order, "", "", ""},
        {payload_one_way, ",payload=bf16", "", ""},
        {newer_codebook_decodes, ",codewords=6", "", ""},
        {residual_not_subtracted, ",codewords=6,rounds=2", "", ""},
        {zero_word_learned, ",codewords=2", "", ""},
        {averaged_over_all, ",codewords=6", "", ""},
    };
    for (const ExpectedMessage& told : all) {
        const verify::TraceVerdict verdict =
            verified(recorded(plain_ends(told.wrong), usual_but(told.more)), verify::Level::rel());
        ASSERT_TRUE(verdict.first) << told.wrong;
        const std::vector<std::string> lines = what_fits(
            folder_ / "run.safetensors", {verdict.first->step, std::nullopt}, gate::Gradients::recorded);
        const std::string wanted = "matches known bug " + std::to_string(told.wrong) + ": ";
        ASSERT_FALSE(lines.empty()) << told.wrong;
        EXPECT_EQ(lines.front().substr(0, wanted.size()), wanted) << lines.front();
        EXPECT_NE(lines.front().find("within rounding"), std::string::npos) << lines.front();
    }
}

/// Another library's sums end in other bits.
TEST_F(MaplTraces, TheMistakeIsNamedWhereSumsHaveAnotherOrder) {
    verify::mapl::Recording of = recorded(plain_ends(dx_without_a), usual + ",anchors=two");
    for (auto& [name, values] : of.vectors)
        for (const char* made : {"Z.", "Xhat.", "dZ.", "dX."})
            if (name.find(made) != std::string::npos)
                for (float& value : values)
                    value *= 1.0F + 0x1p-21F;
    const verify::TraceVerdict verdict = verified(of, verify::Level::rel());
    ASSERT_TRUE(verdict.first);
    const std::vector<std::string> lines = what_fits(
        folder_ / "run.safetensors", {verdict.first->step, std::nullopt}, gate::Gradients::recorded);
    ASSERT_FALSE(lines.empty());
    EXPECT_TRUE(lines.front().starts_with("matches known bug " + std::to_string(dx_without_a) + ": "))
        << lines.front();
}

TEST_F(MaplTraces, NoMistakeIsTriedOnMoreThanTakesSeconds) {
    static_cast<void>(verified(recorded(host_ends(), "rank=40,width=128,tokens=900,micro=2,data=normal"),
                               verify::Level::rel()));
    const std::vector<std::string> lines =
        what_fits(folder_ / "run.safetensors", {1, std::nullopt}, gate::Gradients::recorded);
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines.front().starts_with("known bugs were not tried: ")) << lines.front();
}

TEST_F(MaplTraces, WhatCannotBeIsALine) {
    const verify::mapl::Recording right = recorded(host_ends(), usual + ",anchors=two");
    const auto refused = [&](const std::function<void(verify::mapl::Recording&)>& change) {
        verify::mapl::Recording wrong = right;
        change(wrong);
        try {
            static_cast<void>(verified(wrong, verify::Level::rel()));
        } catch (const Error& error) {
            const std::string line = error.what();
            return line.substr(line.find(": ") + 2);
        }
        return std::string();
    };
    EXPECT_EQ(refused([](verify::mapl::Recording&) {}), "");
    EXPECT_EQ(refused([](verify::mapl::Recording& of) { of.numbers["ids"][4] = 3.0; }),
              "ids, entry 4, is 3; the vocabulary is 3");
    EXPECT_EQ(refused([](verify::mapl::Recording& of) { of.numbers["ids"][0] = 0.5; }),
              "ids, entry 0, is 0.5; the vocabulary is 3");
    EXPECT_THROW(static_cast<void>(verify::mapl::parse_config(
                     [&] {
                         verify::mapl::Config many = right.config;
                         many.steps = many.micro = 1'000'000; // as many names would fill memory
                         return verify::mapl::config_text(many);
                     }(),
                     "trace")),
                 Error);
    EXPECT_NE(refused([](verify::mapl::Recording& of) {
                  of.vectors["initial/A"][0] += 0.5F;
              }).find("off the manifold"),
              std::string::npos);
    EXPECT_NE(refused([](verify::mapl::Recording& of) {
                  of.vectors["P_receiver"][0] += 0.5F;
              }).find("orthonormal"),
              std::string::npos);
    const verify::mapl::Recording coded = recorded(host_ends(), usual + ",codewords=6,rounds=2");
    const auto refused_coded = [&](const std::string& name, std::size_t place, float value) {
        return refused([&](verify::mapl::Recording& of) {
            of = coded;
            of.vectors[name][place] = value;
        });
    };
    EXPECT_EQ(refused_coded(verify::mapl::of_step(2, "indices.2"), 3, 6.0F),
              "step/0002/indices.2, entry 3, is 6; there are 6 codewords");
    EXPECT_EQ(refused_coded("initial/C", 1, 0.5F),
              "initial/C: the first codeword of book 0 is not 0; it must be 0 and stays 0");
    EXPECT_NE(refused([](verify::mapl::Recording& of) { of.numbers["rate"][1] = 0.6; }).find("0.52"),
              std::string::npos);
    EXPECT_NE(refused([](verify::mapl::Recording& of) {
                  of.vectors.erase(verify::mapl::of_step(2, "X.1"));
              }).find("step/0002/X.1"),
              std::string::npos);
    EXPECT_NE(refused([](verify::mapl::Recording& of) {
                  for (Index step = 1; step <= 3; ++step)
                      of.vectors.erase(verify::mapl::of_step(step, "m"));
              }).find("level REL"),
              std::string::npos);
}

// A value that is off by more than rounding is reported with its place.
TEST_F(MaplTraces, APlaceIsATokenOrAFeature) {
    verify::mapl::Recording of = recorded(host_ends(), usual);
    of.vectors[verify::mapl::of_step(2, "Z.2")][7] += 0.01F;
    const verify::TraceVerdict verdict = verified(of, verify::Level::rel());
    ASSERT_TRUE(verdict.first);
    EXPECT_EQ(verdict.first->step, 2);
    EXPECT_EQ(verdict.first->result, "Z.2");
    EXPECT_TRUE(verdict.first->note.starts_with("token 3, column 1: expected ")) << verdict.first->note;
    EXPECT_NE(verdict.first->note.find("1 of 10 values differ"), std::string::npos) << verdict.first->note;
    verify::mapl::Recording coded = recorded(host_ends(), usual + ",codewords=6,rounds=2");
    coded.vectors[verify::mapl::of_step(2, "L")][2 * 6 + 5] +=
        0.01F; // book after book of 6 codewords of 2 values
    const verify::TraceVerdict learned = verified(coded, verify::Level::rel());
    ASSERT_TRUE(learned.first);
    EXPECT_TRUE(learned.first->note.starts_with("book 1, codeword 2, value 1: expected "))
        << learned.first->note;
    verify::mapl::Recording other = recorded(host_ends(), usual);
    other.vectors[verify::mapl::of_step(2, "gradient")][7] += 0.01F;
    const verify::TraceVerdict told = verified(other, verify::Level::rel());
    ASSERT_TRUE(told.first && told.first->index);
    EXPECT_EQ(told.layout.describe(*told.first->index), "tensor feature 3, index 1 (coordinate 7)");
}

} // namespace
} // namespace truestep::properties::mapl
