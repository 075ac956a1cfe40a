// Records and verifies a boundary of MAPL, with Z unencoded and as indices of codewords.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tool_support.hpp"

namespace truestep::tool {
namespace {

using verify::scape::support::contains;
using verify::scape::support::element;
using verify::scape::support::run_tool;
using verify::scape::support::set_element;
using verify::scape::support::ToolResult;

class MaplCommands : public ToolTest {
  protected:
    [[nodiscard]] ToolResult record_with(const Arguments& more) const {
        Arguments all{"record", "mapl", "-o", trace_};
        all.insert(all.end(), more.begin(), more.end());
        return run_tool(all);
    }
    void expect_verified() const {
        for (const Arguments& how :
             {Arguments{}, Arguments{"--from", "start"}, Arguments{"--level", "rel"}}) {
            Arguments all{"verify", trace_};
            all.insert(all.end(), how.begin(), how.end());
            const ToolResult result = run_tool(all);
            EXPECT_EQ(result.status, 0) << result.output << result.errors;
        }
    }
    /// With one value of it changed, and put back.
    void expect_told(const std::string& tensor, problem::Index at, float by,
                     const std::string& phase) const {
        const float before = element<float>(trace_, tensor, at);
        set_element(trace_, tensor, at, before + by);
        for (const char* level : {"exact", "rel"}) {
            const ToolResult result = run_tool({"verify", "--level", level, trace_});
            EXPECT_EQ(result.status, 1) << tensor << result.errors;
            EXPECT_TRUE(contains(result.output, "phase " + phase + ", " + tensor.substr(10)))
                << result.output;
        }
        set_element(trace_, tensor, at, before);
    }
};

TEST_F(MaplCommands, WhatIsRecordedIsRight) {
    for (const Arguments& more :
         {Arguments{}, Arguments{"--codewords", "6", "--rounds", "2", "--subsets", "3"},
          Arguments{"--codewords", "8", "--groups", "3", "--subsets", "4", "--payload", "bf16", "--anchors",
                    "shared", "--back", "descending", "--seed", "9"}}) {
        EXPECT_EQ(record_with(more).status, 0);
        expect_verified();
    }
}

TEST_F(MaplCommands, WhatDiffersOfCodewordsIsToldInItsPhase) {
    ASSERT_EQ(record_with({"--codewords", "6", "--rounds", "2", "--subsets", "3"}).status, 0);
    const float index = element<float>(trace_, "step/0002/indices.1", 3);
    expect_told("step/0002/indices.1", 3, index < 5.0F ? 1.0F : -1.0F, "encode");
    expect_told("step/0002/codewords.2", 5, 0.25F, "learn");
    expect_told("step/0003/L", 30, 0.25F, "learn");
    expect_told("step/0003/Z.1", 7, 0.25F, "decode");
    expect_told("step/0001/C_receiver", 30, 0.25F, "codebooks");
    expect_verified();
}

TEST_F(MaplCommands, CodewordsThatCannotBeAreOneLine) {
    expect_bad_input(record_with({"--codewords", "6", "--groups", "2"}),
                     "groups is 2; it must divide the rank, which is 3");
    expect_bad_input(record_with({"--rounds", "2"}),
                     "codewords is 0, and there are settings of quantization");
    ASSERT_EQ(record_with({"--codewords", "6"}).status, 0);
    set_element(trace_, "step/0002/indices.1", 3, 6.0F);
    expect_bad_input(run_tool({"verify", trace_}),
                     "step/0002/indices.1, entry 3, is 6; there are 6 codewords");
    set_element(trace_, "step/0002/indices.1", 3, 0.5F);
    expect_bad_input(run_tool({"verify", trace_}),
                     "step/0002/indices.1, entry 3, is 0.5; there are 6 codewords");
}

// Squares of 1e20 are infinite in fp32: the polar factor of m would be 0, and A would stay.
TEST_F(MaplCommands, GreatMomentsMoveTheSubspace) {
    ASSERT_EQ(record_with({"--data", "wide", "--steps", "3"}).status, 0);
    EXPECT_GT(std::abs(element<float>(trace_, "step/0001/m", 0)), 0.0F);
    EXPECT_NE(element<float>(trace_, "step/0001/A", 0), element<float>(trace_, "initial/A", 0));
    expect_verified();
}

// A step whose gradient overflows changes neither A nor m, and is recorded as such.
TEST_F(MaplCommands, AStepThatOverflowsIsRecordedAsOneThatChangesNothing) {
    ASSERT_EQ(record_with({"--data", "limit", "--anchor-rate", "1e10", "--steps", "3"}).status, 0);
    EXPECT_FALSE(std::isfinite(element<float>(trace_, "step/0002/gradient", 0)));
    EXPECT_EQ(element<float>(trace_, "step/0002/A", 0), element<float>(trace_, "step/0001/A", 0));
    for (const char* from : {"recorded", "start"})
        EXPECT_EQ(run_tool({"verify", "--from", from, trace_}).status, 0);
    // At REL hardly any value of these steps has a bound, but that is not a difference.
    EXPECT_FALSE(contains(run_tool({"verify", "--level", "rel", trace_}).output, "first divergence"));
    for (const auto& [what, phase] : {std::pair("A", "subspace"), std::pair("m", "momentum")})
        for (const char* level : {"exact", "rel"}) {
            const std::string tensor = std::string("step/0002/") + what;
            const float before = element<float>(trace_, tensor, 4);
            set_element(trace_, tensor, 4, before * 1.5F);
            const ToolResult result = run_tool({"verify", "--level", level, trace_});
            EXPECT_TRUE(contains(result.output, std::string("step 2, phase ") + phase + ", " + what))
                << result.output;
            set_element(trace_, tensor, 4, before);
        }
    expect_bad_input(record_with({"--data", "limit", "--anchor-rate", "1e30", "--steps", "3"}),
                     "not written: an anchor is not finite in step 1");
}

TEST_F(MaplCommands, FixedAnchorsStay) {
    ASSERT_EQ(record_with({"--anchors", "fixed"}).status, 0);
    expect_verified();
    expect_told("step/0002/E_sender", 4, 0.25F, "anchors");
    expect_told("step/0004/E_sender", 0, 1e-6F, "anchors");

    ASSERT_EQ(record_with({"--anchors", "shared"}).status, 0);
    verify::scape::support::FileImage image(trace_);
    image.replace_in_config("\"shared\"", "\"fixed\"");
    image.save(trace_);
    const ToolResult result = run_tool({"verify", trace_});
    EXPECT_EQ(result.status, 1) << result.output;
    EXPECT_TRUE(contains(result.output, "step 2, phase anchors, E_sender")) << result.output;
}

} // namespace
} // namespace truestep::tool
