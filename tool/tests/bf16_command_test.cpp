// Tests runs in bf16 from the command line.
#include <string>

#include <gtest/gtest.h>

#include "tool_support.hpp"

namespace truestep::tool {
namespace {

using verify::scape::support::contains;
using verify::scape::support::run_tool;
using verify::scape::support::ToolResult;

class Bf16CommandTest : public ToolTest {
  protected:
    [[nodiscard]] ToolResult record_in(const std::string& arithmetic) const {
        return run_tool({"record", "--arithmetic", arithmetic, "--steps", "3", "-o", trace_});
    }
};

TEST_F(Bf16CommandTest, ARunInBf16PassesAtItsLevelAlone) {
    EXPECT_EQ(record_in("bf16").status, 0);
    const ToolResult result =
        run_tool({"verify", "--level", "bf16", "--json", file("result.json"), trace_});
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_TRUE(contains(result.output, " --level bf16\n")) << result.output;
    EXPECT_TRUE(contains(result.output, "level    BF16: within twice the rounding error"));
    EXPECT_TRUE(contains(verify::scape::support::load(file("result.json")), "\"BF16\""));
    EXPECT_EQ(run_tool({"verify", "--level", "rel", trace_}).status, 1);
}

TEST_F(Bf16CommandTest, WhatCannotBeHadIsOneLineAndStatus2) {
    expect_bad_input(record_in("fp16"), "--arithmetic is 'fp16'; it must be fp32 or bf16");
    EXPECT_EQ(record_in("bf16").status, 0);
    expect_bad_input(run_tool({"verify", "--level", "bf16", "--from", "start", trace_}),
                     "level BF16 is not available with --from start");
    expect_bad_input(run_tool({"check", "--level", "bf16"}), "bf16 is for recorded runs");
    const std::string gossip = file("gossip.safetensors");
    EXPECT_EQ(run_tool({"record", "gasloc", "-o", gossip}).status, 0);
    expect_bad_input(run_tool({"verify", "--level", "bf16", gossip}),
                     "level BF16 is not available for GASLoC");
}

} // namespace
} // namespace truestep::tool
