// Tests files that each rank of a run has written by itself, read as one trace.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/trace/bundle.hpp>
#include <truestep/trace/ranks.hpp>
#include <truestep/verify/diff.hpp>
#include <truestep/verify/report.hpp>

#include "rank_files_support.hpp"
#include "verify_trace_support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::error_of;
using support::FileImage;
using support::SafetensorsFile;

class RankFilesTest : public VerifyTraceTest {
  protected:
    RankFilesTest() {
        RecordOptions options = support::small_run();
        options.replicas = trace::Replicas::copies;
        record(path_, options);
        split();
    }

    void split() { files_ = support::split_by_rank(path_, 3, folder_.path()); }

    void change_file(int rank, const std::function<void(FileImage&)>& change_image) const {
        FileImage image(files_[static_cast<std::size_t>(rank)]);
        change_image(image);
        image.save(files_[static_cast<std::size_t>(rank)]);
    }

    [[nodiscard]] std::string refusal() const {
        return error_of([&] { static_cast<void>(verify_trace(run_, {})); });
    }

    /// The report without the path.
    [[nodiscard]] static std::string told(TraceVerdict verdict) {
        verdict.path.clear();
        return json_report(verdict).dump();
    }

    std::filesystem::path run_ = folder_ / "run.rank*.safetensors";
    std::vector<std::filesystem::path> files_;
};

TEST_F(RankFilesTest, ParameterGroupsHaveTheirRatesInEveryFile) {
    RecordOptions options = support::small_run();
    options.replicas = trace::Replicas::copies;
    options.problem.layout = with_param_groups(options.problem.layout, "0,1,0");
    options.more_learning_rates = {{0.03, 0.5}};
    record(path_, options);
    split();
    EXPECT_EQ(told(verify_trace(run_, {})), told(verify_trace(path_, {})));
    EXPECT_EQ(verify_trace(run_, {}).status, Status::passed);
    change_file(1, [](FileImage& image) {
        std::get<std::vector<double>>(image.at("learning_rate").data)[1] = 0.01;
    });
    EXPECT_TRUE(contains(refusal(), "learning_rate")) << refusal();
}

TEST_F(RankFilesTest, TheVerdictIsThatOfOneFile) {
    for (const Level& level : {Level::exact(), Level::rel(), Level::bf16()}) {
        const TraceVerdict verdict = verify_from(run_, ReferenceStart::recorded, level);
        EXPECT_EQ(verdict.status, Status::passed);
        EXPECT_EQ(verdict.path, run_.string());
        EXPECT_EQ(told(verdict), told(verify_from(path_, ReferenceStart::recorded, level)));
    }
}

TEST_F(RankFilesTest, ARankThatDriftsIsFoundAsInOneFile) {
    support::set_element(path_, "step/0003/parameters/rank2", 33, -0.5F);
    support::set_element(path_, "step/0002/residual/rank1", 80, 9.0F);
    split();
    const TraceVerdict verdict = verify_from(run_, ReferenceStart::recorded);
    EXPECT_EQ(verdict.status, Status::failed);
    EXPECT_EQ(verdict.first->result, "residual");
    EXPECT_EQ(told(verdict), told(verify_from(path_, ReferenceStart::recorded)));
}

TEST_F(RankFilesTest, JoinedTheyAreOneTraceWithEveryBit) {
    const auto joined = folder_ / "joined.safetensors";
    trace::join(run_, joined);
    EXPECT_TRUE(diff_traces(TraceReader(joined), TraceReader(path_)).same());
    EXPECT_EQ(told(verify_from(joined, ReferenceStart::start)),
              told(verify_from(path_, ReferenceStart::start)));
    const SafetensorsFile file(joined);
    const SafetensorsFile whole(path_);
    ASSERT_EQ(file.tensors().size(), whole.tensors().size());
    const auto raw = [](const SafetensorsFile& of, const std::string& name) {
        const storage::TensorEntry& entry = *of.find(name);
        std::vector<std::byte> bytes(entry.end - entry.begin);
        of.read_raw(entry, 0, bytes);
        return bytes;
    };
    for (const storage::TensorEntry& entry : whole.tensors()) {
        ASSERT_NE(file.find(entry.name), nullptr) << entry.name;
        EXPECT_EQ(raw(file, entry.name), raw(whole, entry.name)) << entry.name;
    }
    EXPECT_EQ(trace::algorithm_of(joined), "scape");
}

TEST_F(RankFilesTest, ARanksFileAloneIsNoRun) {
    EXPECT_TRUE(
        contains(error_of([&] { static_cast<void>(verify_trace(files_[1], {})); }),
                 "run.rank1.safetensors: it is what rank 1 of 3 has written; give every rank's file"));
    EXPECT_TRUE(contains(error_of([&] { static_cast<void>(trace::run_of({files_[1]})); }),
                         "ranks 0, 2 of 3 are missing"));
    std::filesystem::remove(files_[2]);
    EXPECT_TRUE(contains(refusal(), "run.rank*.safetensors: rank 2 of 3 is missing"));
    std::filesystem::remove(files_[0]);
    EXPECT_TRUE(contains(refusal(), "run.rank0.safetensors"));
}

TEST_F(RankFilesTest, TheirNamesSayTheirRun) {
    EXPECT_EQ(trace::run_of(files_), run_);
    EXPECT_EQ(trace::run_of({files_[2], files_[0], files_[1]}), run_);
    EXPECT_EQ(trace::run_of({path_}), path_);
    EXPECT_EQ(trace::run_of({run_}), run_);
    const auto refused = [](const std::vector<std::filesystem::path>& files) {
        return error_of([&] { static_cast<void>(trace::run_of(files)); });
    };
    EXPECT_TRUE(contains(refused({files_[0], files_[1], files_[1], files_[2]}), "rank 1 is given twice"));
    EXPECT_TRUE(contains(refused({files_[0], path_}), "it holds a whole run"));
    EXPECT_TRUE(contains(refused({path_, files_[0]}), "it holds a whole run"));
    EXPECT_TRUE(contains(refused({}), "no trace is given"));
    const auto others = support::split_by_rank(path_, 3, folder_.path(), "other");
    EXPECT_TRUE(contains(refused({files_[0], others[1]}), "are of two runs"));
    const auto nameless = folder_ / "mine.safetensors";
    std::filesystem::copy_file(files_[1], nameless);
    EXPECT_TRUE(contains(refused({nameless}), "it is of rank 1, and its name does not"));

    std::vector<std::filesystem::path> all{others[2],          path_,     files_[1],
                                           folder_ / "absent", files_[0], others[0]};
    const std::vector<std::vector<std::filesystem::path>> runs{
        {others[2], others[0]}, {path_}, {files_[1], files_[0]}, {folder_ / "absent"}};
    EXPECT_EQ(trace::by_run(all), runs);
}

TEST_F(RankFilesTest, TheNumberIsReadWhole) {
    // rank1 is not part of rank10, and the last place counts.
    const auto odd = folder_ / "rank1_of_rank10.safetensors";
    std::filesystem::copy_file(files_[1], odd);
    EXPECT_TRUE(contains(error_of([&] { static_cast<void>(trace::run_of({odd})); }),
                         (folder_ / "rank*_of_rank10.safetensors").string() + ": ranks 0, 2 of 3"));
    EXPECT_EQ(trace::file_of_rank("a/rank1.rank*.x", 12), "a/rank1.rank12.x");
    EXPECT_FALSE(trace::names_ranks("rank*/run.safetensors"));
    std::ofstream(folder_ / "run.rank*.safetensors") << "a file of that very name";
    EXPECT_FALSE(trace::names_ranks(run_));
}

TEST_F(RankFilesTest, RanksOfOneRunHaveTheSameSettings) {
    change_file(2, [](FileImage& image) { image.replace_in_config("\"beta1\":0.9", "\"beta1\":0.8"); });
    const std::string other = refusal();
    EXPECT_TRUE(contains(other, "run.rank2.safetensors: config: beta1 is 0.8, and in")) << other;
    EXPECT_TRUE(contains(other, "run.rank0.safetensors 0.9; ")) << other;
    split();
    change_file(1, [](FileImage& image) { image.replace_in_config("\"steps\":5", "\"steps\":4"); });
    EXPECT_TRUE(contains(refusal(), "run.rank1.safetensors: config: steps is 4, and in"));
    split();
    change_file(1,
                [](FileImage& image) { image.replace_in_config("\"name\":\"mlp\"", "\"name\":\"mlq\""); });
    EXPECT_TRUE(contains(refusal(), "config: tensors is another list"));
    split();
    change_file(1, [](FileImage& image) { image.replace_in_config("\"rank\":1", "\"rank\":2"); });
    EXPECT_TRUE(contains(refusal(), "rank is 2; by its name the file is of rank 1"));
    split();
    change_file(0, [](FileImage& image) { image.replace_in_config("\"rank\":0", "\"rank\":3"); });
    EXPECT_TRUE(contains(refusal(), "rank is 3; there are ranks 0 to 2"));
    split();
    change_file(1, [](FileImage& image) { image.replace_in_config(",\"rank\":1", ""); });
    EXPECT_TRUE(contains(refusal(), "rank is not there; by its name the file is of rank 1"));
}

TEST_F(RankFilesTest, RanksThatDoNotStartAlikeAreTold) {
    support::set_element(files_[2], "initial/parameters", 17, 0.125F);
    const std::string apart = refusal();
    EXPECT_TRUE(contains(apart, "run.rank2.safetensors: initial/parameters is not what ")) << apart;
    EXPECT_TRUE(contains(apart, "first at element 17; all ranks of a run start alike")) << apart;
    split();
    support::set_element(files_[1], "learning_rate", 3, 0.5);
    EXPECT_TRUE(contains(refusal(), "run.rank1.safetensors: learning_rate is not what "));
    split();
    change_file(1, [](FileImage& image) {
        image.tensors.push_back({"step/0001/gradient/rank0", {1}, std::vector<float>{1.0F}});
    });
    EXPECT_TRUE(contains(refusal(), "tensor step/0001/gradient/rank0 has another type or shape"));
}

TEST_F(RankFilesTest, WhatARankHasNotRecordedIsTold) {
    change_file(1, [](FileImage& image) { image.drop("step/0002/parameters"); });
    EXPECT_TRUE(contains(refusal(), "of 3 ranks' copies of step/0002/parameters "
                                    "step/0002/parameters/rank1 is missing"));
    split();
    change_file(1, [](FileImage& image) { image.drop("step/0002/gradient"); });
    EXPECT_TRUE(contains(refusal(), "tensor step/0002/gradient/rank1 is missing"));
}

TEST_F(RankFilesTest, JoinOverwritesNoneOfThem) {
    const std::string before = support::load(files_[1]);
    EXPECT_TRUE(contains(error_of([&] { trace::join(run_, files_[1]); }), "is one of the files"));
    EXPECT_EQ(support::load(files_[1]), before);
}

} // namespace
} // namespace truestep::verify::scape
