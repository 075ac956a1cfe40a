// Tests files of ranks on the command line: verify, diff, join.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rank_files_support.hpp"
#include "tool_support.hpp"

namespace truestep::tool {
namespace {

using verify::scape::support::contains;
using verify::scape::support::last_line;
using verify::scape::support::run_tool;
using verify::scape::support::ToolResult;

class RanksToolTest : public ToolTest {
  protected:
    RanksToolTest() {
        verify::scape::RecordOptions options = verify::scape::support::small_run();
        options.replicas = trace::Replicas::copies;
        record(trace_, options);
        split();
    }

    void split() {
        files_.clear();
        for (const auto& path : verify::scape::support::split_by_rank(trace_, 3, folder_.path()))
            files_.push_back(path.string());
    }

    /// Runs COMMAND with the files, and more arguments.
    [[nodiscard]] ToolResult tool(const std::string& command, const Arguments& more = {}) const {
        Arguments arguments{command};
        arguments.insert(arguments.end(), files_.begin(), files_.end());
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_tool(arguments);
    }

    Arguments files_;
    std::string run_ = file("run.rank*.safetensors");
};

TEST_F(RanksToolTest, VerifyTakesThemAsOneRunBesideOthers) {
    const ToolResult result = tool("verify", {trace_});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_TRUE(result.output.starts_with("$ truestep verify '" + run_ + "' --level exact\n"))
        << result.output;
    EXPECT_TRUE(contains(result.output, "PASSED  " + run_ + "\n"));
    EXPECT_EQ(last_line(result.output), "2 passed, 0 failed");
    EXPECT_EQ(last_line(run_tool({"verify", run_}).output), "1 passed, 0 failed");
}

TEST_F(RanksToolTest, AMissingRankCostsItsRunAlone) {
    files_.erase(files_.begin() + 1);
    const ToolResult result = tool("verify", {trace_});
    expect_bad_input(result, "run.rank*.safetensors: rank 1 of 3 is missing; give every rank's file");
    EXPECT_EQ(last_line(result.output), "1 passed, 1 failed");
    files_.pop_back();
    expect_bad_input(tool("verify"), "it is what rank 0 of 3 has written; give every rank's file");
}

TEST_F(RanksToolTest, AWrongValueIsFoundAndExplainedAsInOneFile) {
    verify::scape::support::set_element(trace_, "step/0002/parameters/rank1", 33, -0.5F);
    split();
    const ToolResult result = tool("verify");
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(contains(result.output, "first divergence: step 2, phase update, parameters of rank 1"))
        << result.output;
    EXPECT_FALSE(contains(result.output, "were not tried")) << result.output;
}

TEST_F(RanksToolTest, JoinMakesTheTraceThatDiffCallsTheSame) {
    const std::string joined = file("joined.safetensors");
    const ToolResult result = tool("join", {"-o", joined});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(run_tool({"verify", joined}).status, 0);
    EXPECT_EQ(run_tool({"diff", trace_, joined}).status, 0);
    EXPECT_EQ(run_tool({"diff", run_, joined}).status, 0);
    verify::scape::support::set_element(joined, "step/0001/residual/rank2", 3, 9.0F);
    EXPECT_EQ(run_tool({"diff", run_, joined}).status, 1);
}

TEST_F(RanksToolTest, JoinOfBadInputIsOneLineAndStatus2) {
    expect_bad_input(tool("join", {files_.front(), "-o", file("x")}), "rank 0 is given twice");
    expect_bad_input(tool("join", {"-o", files_.front()}), "it is one of the files that are joined");
    expect_bad_input(tool("join", {"-o", file("no/such/folder/x")}), "cannot be created");
    expect_bad_input(run_tool({"join", file("absent"), "-o", file("x")}), "absent");
    expect_bad_input(run_tool({"join", trace_, "-o", file("x")}), "holds a whole run");
    EXPECT_FALSE(std::filesystem::exists(file("x")));
}

TEST_F(RanksToolTest, GaslocsRunsToo) {
    ASSERT_EQ(run_tool({"record", "gasloc", "--workers", "3", "-o", trace_}).status, 0);
    split();
    const ToolResult result = tool("verify");
    EXPECT_EQ(result.status, 0) << result.errors << result.output;
    ASSERT_EQ(tool("join", {"-o", file("joined.safetensors")}).status, 0);
    EXPECT_EQ(run_tool({"diff", trace_, file("joined.safetensors")}).status, 0);
    verify::scape::support::set_element(files_[2], "step/0002/parameters/rank2", 1, 9.0F);
    EXPECT_TRUE(contains(run_tool({"diff", trace_, run_}).output, "first divergence: round 2"));
    EXPECT_TRUE(contains(tool("verify").output,
                         "first divergence: round 2, phase momentum, parameters of worker 2"));
}

/// They ignore it.
TEST_F(ToolTest, GaslocsBiasCorrectionIsNoSettingOfSgdAndAdamw) {
    for (const char* inner : {"sgd", "adamw", "adams"}) {
        ASSERT_EQ(run_tool({"record", "gasloc", "--inner", inner, "-o", trace_}).status, 0);
        verify::scape::support::FileImage image(trace_);
        image.replace_in_config(R"("bias_correction":"adam",)", "");
        image.save(trace_);
        const ToolResult result = run_tool({"verify", trace_});
        if (inner == std::string("adams"))
            EXPECT_TRUE(contains(result.errors, "bias_correction")) << result.errors;
        else
            EXPECT_EQ(result.status, 0) << result.errors << result.output;
    }
}

} // namespace
} // namespace truestep::tool
