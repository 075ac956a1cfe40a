// Tests the commands on traces: verify, record, diff.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <truestep/report/environment.hpp>

#include "tool_support.hpp"

namespace truestep::tool {
namespace {

using nlohmann::json;
using report::version;
using verify::scape::support::contains;
using verify::scape::support::element;
using verify::scape::support::FileImage;
using verify::scape::support::last_line;
using verify::scape::support::load;
using verify::scape::support::run_tool;
using verify::scape::support::set_element;
using verify::scape::support::ToolResult;

// truestep verify.

TEST_F(ToolTest, VerifyOfAGoodTracePasses) {
    record_good();
    const ToolResult result = run_tool({"verify", trace_});
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(result.errors.empty()) << result.errors;
    EXPECT_EQ(last_line(result.output), "1 passed, 0 failed");
    EXPECT_TRUE(contains(result.output, "PASSED  " + trace_ + "\n"));
    EXPECT_TRUE(result.output.starts_with("$ truestep verify " + trace_ + " --level exact\n"))
        << "the command that repeats it comes first, so that a crash leaves it too";
}

TEST_F(ToolTest, VerifyOfAWrongTraceFailsWithStatus1) {
    record_wrong();
    const ToolResult result = run_tool({"verify", trace_});
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(result.errors.empty()) << result.errors;
    EXPECT_EQ(last_line(result.output), "0 passed, 1 failed");
    EXPECT_TRUE(contains(result.output, "FAILED  " + trace_ + "\n"));
    EXPECT_TRUE(contains(result.output,
                         "first divergence: step 2, phase update, parameters (the same on all ranks), "
                         "tensor norm, index 3 (coordinate 33)"));
}

// Some of the known bugs that are tried make w NaN by then, and have no coming mask.
TEST_F(ToolTest, AMistakeThatShowsLateDoesNotCostTheVerdict) {
    verify::scape::RecordOptions options = verify::scape::support::small_run();
    options.steps = 300;
    options.problem.settings.bias_correction = problem::BiasCorrection::adam;
    record(trace_, options);
    set_element(trace_, "step/0290/parameters", 3, -0.5F);
    const ToolResult result = run_tool({"verify", trace_});
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(result.errors.empty()) << result.errors;
    EXPECT_TRUE(contains(result.output, "first divergence: step 290, phase update, parameters"));
    EXPECT_EQ(last_line(result.output), "0 passed, 1 failed");
    EXPECT_FALSE(contains(result.output, "were not tried")) << result.output;
}

TEST_F(ToolTest, TheCommandThatIsPrintedRepeatsTheCheck) {
    const std::string odd = file("it's a trace.safetensors");
    record(odd, verify::scape::support::small_run());
    const ToolResult result = run_tool({"verify", "--level", "rel", "--from", "start", odd});
    EXPECT_EQ(result.status, 0);
    std::string quoted = "'";
    quoted += folder_.path().string() + "/it'\\''s a trace.safetensors'";
    EXPECT_EQ(verify::scape::support::lines(result.output).front(),
              "$ truestep verify " + quoted + " --from start --level rel");
}

TEST_F(ToolTest, VerifyCountsEveryTraceAndTellsTheWorst) {
    record_good();
    const std::string good = file("good.safetensors");
    std::filesystem::copy_file(trace_, good);
    record_wrong();
    const ToolResult two = run_tool({"verify", good, trace_, good});
    EXPECT_EQ(two.status, 1);
    EXPECT_EQ(last_line(two.output), "2 passed, 1 failed");
    const ToolResult bad = run_tool({"verify", good, file("absent"), trace_});
    expect_bad_input(bad, "absent");
    EXPECT_EQ(last_line(bad.output), "1 passed, 2 failed")
        << "the traces after it are checked all the same";
}

TEST_F(ToolTest, BriefIsOneRowATraceAndTellsOnlyFailuresInFull) {
    record_wrong();
    const std::string good = file("good.safetensors");
    record(good, verify::scape::support::small_run());
    const ToolResult result = run_tool({"verify", "--brief", good, trace_});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(last_line(result.output), "1 passed, 1 failed");
    EXPECT_TRUE(result.output.starts_with("$ truestep verify " + trace_ + " --level exact\n"));
    EXPECT_TRUE(contains(result.output, "first divergence: step 2"));
    const auto lines = verify::scape::support::lines(result.output);
    const auto row_of = [&](const std::string& trace) {
        const auto found = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
            return line.starts_with(trace + " ");
        });
        return found == lines.end() ? std::string() : *found;
    };
    EXPECT_TRUE(row_of(good).ends_with("PASSED")) << result.output;
    EXPECT_TRUE(row_of(trace_).ends_with("FAILED")) << result.output;
    const ToolResult all_good = run_tool({"verify", "--brief", good, good});
    EXPECT_EQ(all_good.status, 0);
    EXPECT_EQ(verify::scape::support::lines(all_good.output).size(), 5U)
        << "a title, two rows, the note on replicas and the counts";
}

TEST_F(ToolTest, AMistrustedTraceDoesNotPass) {
    record_mistrusted();
    const ToolResult result = run_tool({"verify", trace_});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(last_line(result.output), "0 passed, 1 failed");
    EXPECT_TRUE(contains(result.output, "MISTRUSTED  " + trace_));
    EXPECT_TRUE(contains(result.output, "1 of the failed only MISTRUSTED: no difference, but no proof\n"));
}

TEST_F(ToolTest, AnUntestedTraceDoesNotPass) {
    verify::scape::RecordOptions options = verify::scape::support::small_run();
    options.steps = 1;
    options.injections = {{1, 0, 0, NAN}};
    record(trace_, options);
    const ToolResult result = run_tool({"verify", trace_});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(last_line(result.output), "0 passed, 1 failed");
    EXPECT_TRUE(contains(result.output, "UNTESTED  " + trace_));
}

TEST_F(ToolTest, VerifyOfBadInputIsOneLineAndStatus2) {
    expect_bad_input(run_tool({"verify", file("absent")}), file("absent"));
    expect_bad_input(run_tool({"verify", folder_.path().string()}), folder_.path().string());
    verify::scape::support::store(trace_, "no trace");
    expect_bad_input(run_tool({"verify", trace_}), trace_);
    record_good();
    expect_bad_input(run_tool({"verify", "--level", "ulp", trace_}), "--level ulp is not available");
    expect_bad_input(run_tool({"verify", "--level", "stat", trace_}), "--level stat is not available");
    expect_bad_input(run_tool({"verify", "--level", "0.05", trace_}), "--level is '0.05'");
    expect_bad_input(run_tool({"verify", "--from", "here", trace_}), "--from is 'here'");
    expect_bad_input(run_tool({"verify", "--json", file("absent/x.json"), trace_}), file("absent/x.json"));
    FileImage image(trace_);
    image.drop_result("parameters");
    image.save(trace_);
    expect_bad_input(run_tool({"verify", "--from", "recorded", trace_}),
                     "--from recorded is not available");
    image.replace_in_config("\"first\"", "\"together\"");
    image.save(trace_);
    expect_bad_input(run_tool({"verify", trace_}), "level EXACT is not available");
    image.replace_in_config("0.95", "1e999");
    image.save(trace_);
    expect_bad_input(run_tool({"verify", trace_}), "config is not JSON");
}

TEST_F(ToolTest, JsonHasCommandEnvironmentCountsAndTraces) {
    record_wrong();
    const std::string good = file("good.safetensors");
    record(good, verify::scape::support::small_run());
    const std::string path = file("result.json");
    EXPECT_EQ(run_tool({"verify", "--json", path, good, trace_, file("absent")}).status, 2);
    const json result = json::parse(load(path));
    EXPECT_EQ(result.at("command").at(1), "verify");
    EXPECT_EQ(result.at("command").size(), 7U);
    EXPECT_EQ(result.at("environment").at("truestep"), version());
    EXPECT_TRUE(result.at("environment").contains("compiler"));
    EXPECT_EQ(result.at("passed"), 1);
    EXPECT_EQ(result.at("failed"), 2);
    EXPECT_EQ(result.at("mistrusted"), 0);
    ASSERT_EQ(result.at("traces").size(), 3U);
    EXPECT_EQ(result.at("traces")[0].at("status"), "PASSED");
    EXPECT_EQ(result.at("traces")[0].at("trace"), good);
    EXPECT_TRUE(result.at("traces")[0].at("first_divergence").is_null());
    EXPECT_EQ(result.at("traces")[1].at("status"), "FAILED");
    EXPECT_EQ(result.at("traces")[1].at("first_divergence").at("tensor"), "norm");
    EXPECT_TRUE(contains(result.at("traces")[2].at("error").get<std::string>(), "absent"));
    EXPECT_FALSE(result.at("traces")[2].contains("status"));
}

TEST_F(ToolTest, JsonCountsMistrustedTracesAmongTheFailed) {
    record_mistrusted();
    const std::string path = file("result.json");
    EXPECT_EQ(run_tool({"verify", "--json=" + path, trace_}).status, 1);
    const json result = json::parse(load(path));
    EXPECT_EQ(result.at("passed"), 0);
    EXPECT_EQ(result.at("failed"), 1);
    EXPECT_EQ(result.at("mistrusted"), 1);
    EXPECT_EQ(result.at("traces")[0].at("status"), "MISTRUSTED");
}

TEST_F(ToolTest, JsonIsReadableWhateverTheNamesHold) {
    const std::string odd = file("bytes \xff\xfe and \"quotes\"");
    record(odd, verify::scape::support::small_run());
    const std::string path = file("result.json");
    EXPECT_EQ(run_tool({"verify", "--json", path, odd}).status, 0);
    EXPECT_EQ(json::parse(load(path)).at("passed"), 1);
}

// truestep record.

TEST_F(ToolTest, RecordSaysWhatItWroteAndTheSourceRepeatsIt) {
    const Arguments settings{"--workers", "5", "--seed", "9", "--tensors", "a b:20,norm:3:dense"};
    Arguments arguments{"record", "-o", trace_};
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    const ToolResult result = run_tool(arguments);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.output, trace_ + "\n");
    EXPECT_TRUE(result.errors.empty());
    const std::string source = FileImage(trace_).metadata.at("source");
    EXPECT_EQ(source, "truestep record --workers 5 --seed 9 --tensors 'a b:20,norm:3:dense'");
    for (const Arguments& output : {Arguments{"--output", file("x")}, Arguments{"--output=" + file("x")},
                                    Arguments{"-o" + file("x")}}) {
        Arguments again{"record"};
        again.insert(again.end(), output.begin(), output.end());
        again.insert(again.end(), settings.begin(), settings.end());
        EXPECT_EQ(run_tool(again).status, 0);
        EXPECT_EQ(load(file("x")), load(trace_)) << "the place of the output is no part of the trace";
    }
}

TEST_F(ToolTest, AnImpossibleSettingOfRecordIsOneLineAndLeavesNoFile) {
    const std::vector<std::pair<Arguments, std::string>> settings{
        {{"--workers", "0"}, "workers is 0"},
        {{"--workers", "-3"}, "workers is -3"},
        {{"--workers", "9999999"}, "workers is 9999999"},
        {{"--workers", "2.5"}, "--workers"},
        {{"--steps", "0"}, "--steps is 0"},
        {{"--steps", "-1"}, "--steps is -1"},
        {{"--tensors", "a"}, "--tensors has 'a'"},
        {{"--tensors", "a:0"}, "no parameters"},
        {{"--tensors", "a:1,a:2"}, "two tensors are named a"},
        {{"--tensors", ":5"}, "empty name"},
        {{"--tensors", "a:-5"}, "has size -5"},
        {{"--algorithm", "adam"}, "algorithm is 'adam'"},
        {{"--partition", "by_hand"}, "partition is 'by_hand'"},
        {{"--density", "0"}, "density"},
        {{"--density", "1.5"}, "density"},
        {{"--density", "nan"}, "density"},
        {{"--density-schedule", "cubic"}, "--density-schedule is 'cubic'"},
        {{"--density-schedule", "linear", "--density-start", "2"}, "the start is 2"},
        {{"--density-schedule", "geometric", "--density-steps", "-1"}, "the warm-up is -1"},
        {{"--beta1", "1"}, "beta1 is 1"},
        {{"--beta2", "-0.5"}, "beta2 is -0.5"},
        {{"--beta1", "nan"}, "beta1 is nan"},
        {{"--epsilon", "0"}, "epsilon is 0"},
        {{"--epsilon", "1e-60"}, "epsilon is 1e-60"},
        {{"--weight-decay", "-1"}, "weight_decay is -1"},
        {{"--clip-norm", "-1"}, "clip_norm is -1"},
        {{"--algorithm", "adams", "--clip-norm", "1"}, "no clipping"},
        {{"--bias-correction", "Adam"}, "bias_correction is 'Adam'"},
        {{"--k-rounding", "up"}, "k_rounding is 'up'"},
        {{"--data", "gauss"}, "--data is 'gauss'"},
        {{"--inject", "1:0:0"}, "--inject has '1:0:0'"},
        {{"--inject", "99:0:0:1"}, "--inject names step 99"},
        {{"--learning-rate", "nan"}, "--learning-rate is nan; it must be finite"},
        {{"--learning-rate", "inf"}, "--learning-rate is inf; it must be finite"},
        {{"--learning-rate", "-0.1"}, "--learning-rate is -0.1; it must be 0 or more"},
        {{"--learning-rate", "0.1,0.2"},
         "--learning-rate has 2 numbers, and the tensors are of 1 parameter group;"},
        {{"--param-groups", "0,1"}, "give the parameter group of each of the 3 tensors"},
        {{"--learning-rate", "1e308"}, "halted after step 1"},
        {{"--seed", "one"}, "--seed"},
    };
    for (const auto& [setting, part] : settings) {
        Arguments arguments{"record", "-o", trace_};
        arguments.insert(arguments.end(), setting.begin(), setting.end());
        expect_bad_input(run_tool(arguments), part);
        EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << part;
    }
    expect_bad_input(run_tool({"record", "-o", file("absent/trace")}), "absent/trace");
}

TEST_F(ToolTest, ATraceOfAnotherSystemIsNamedAsSuch) {
    record_good();
    const std::string scapes =
        trace_ + ": a trace of the system scape (algorithm 'scape'), and --system is averaging";
    expect_bad_input(run_tool({"verify", "--system", "averaging", trace_}), scapes);
    EXPECT_EQ(run_tool({"verify", "--system", "scape", trace_}).status, 0);
    expect_bad_input(run_tool({"verify", "--system", "gossip", trace_}),
                     "--system is 'gossip'; there are scape, gasloc");

    const std::string foreign = file("foreign.safetensors");
    storage::SafetensorsWriter writer(foreign, {{"format", "scape-trace"},
                                                {"version", "1"},
                                                {"source", "a test"},
                                                {"config", R"({"algorithm": "gossip"})"}});
    writer.finish();
    const std::string unknown =
        foreign + ": a trace of the algorithm 'gossip', which no system here knows; there are scape, adams";
    expect_bad_input(run_tool({"verify", foreign}), unknown);
    expect_bad_input(run_tool({"diff", foreign, trace_}), unknown);
    expect_bad_input(run_tool({"diff", trace_, foreign}), unknown);
}

TEST_F(ToolTest, RecordAsksTheSystemForItsSettings) {
    ASSERT_EQ(run_tool({"record", "-o", trace_, "--steps", "1", "--seed", "18446744073709551615"}).status,
              0);
    std::filesystem::remove(trace_);
    expect_bad_input(run_tool({"record", "-o", trace_, "--system", "averaging"}),
                     "--system is 'averaging'; there are scape, gasloc, mapl, dense");
    EXPECT_FALSE(std::filesystem::exists(trace_));
    ASSERT_EQ(run_tool({"record", "-o", trace_, "--system", "scape", "--steps", "2"}).status, 0);
    EXPECT_EQ(run_tool({"verify", trace_}).status, 0);
}

TEST_F(ToolTest, InjectionsAreRecordedAndTheRefusedStepVerifies) {
    EXPECT_EQ(run_tool({"record", "-o", trace_, "--steps", "4", "--inject", "2:1:17:nan", "--inject",
                        "4:0:3:-inf"})
                  .status,
              0);
    EXPECT_TRUE(std::isnan(element<float>(trace_, "step/0002/gradient/rank1", 17)));
    EXPECT_TRUE(std::isinf(element<float>(trace_, "step/0004/gradient/rank0", 3)));
    EXPECT_EQ(run_tool({"verify", trace_}).status, 0);
}

/// A round trip for each class of data, correction, partition and number of workers; all traces of one
/// number of workers are verified by one run of the tool.
class RoundTrip : public ToolTest, public testing::WithParamInterface<int> {};

TEST_P(RoundTrip, WhatIsRecordedVerifies) {
    Arguments verify{"verify"};
    for (const char* data : {"normal", "dyadic", "ties", "sparse", "subnormal", "wide"})
        for (const char* correction : {"none", "adam", "momentum"})
            for (const char* partition : {"by_shard", "by_tensor"}) {
                const std::string path = file(std::string(data) + correction + partition);
                // Clipping and a falling density come with one partition, their absence with the other.
                const bool shard = std::string(partition) == "by_shard";
                const ToolResult recorded =
                    run_tool({"record", "-o", path, "--workers", std::to_string(GetParam()), "--data", data,
                              "--partition", partition, "--bias-correction", correction, "--steps", "4",
                              "--clip-norm", shard ? "0.5" : "0", "--density-schedule",
                              shard ? "geometric" : "constant", "--phases"});
                ASSERT_EQ(recorded.status, 0) << recorded.errors;
                verify.push_back(path);
            }
    const std::string expected = std::to_string(verify.size() - 1) + " passed, 0 failed";
    const ToolResult exact = run_tool(verify);
    EXPECT_EQ(last_line(exact.output), expected) << exact.output << exact.errors;
    verify.insert(verify.begin() + 1, {"--from", "start", "--level", "rel"});
    const ToolResult rel = run_tool(verify);
    EXPECT_EQ(last_line(rel.output), expected) << rel.output << rel.errors;
}

TEST_P(RoundTrip, WhatIsRecordedOfAdamSVerifies) {
    Arguments verify{"verify"};
    for (const char* correction : {"none", "adam", "momentum"}) {
        const std::string path = file(correction);
        ASSERT_EQ(run_tool({"record", "-o", path, "--algorithm", "adams", "--workers",
                            std::to_string(GetParam()), "--bias-correction", correction})
                      .status,
                  0);
        verify.push_back(path);
    }
    EXPECT_EQ(last_line(run_tool(verify).output), "3 passed, 0 failed");
}

INSTANTIATE_TEST_SUITE_P(Workers, RoundTrip, testing::Values(1, 2, 3, 4, 5, 7, 8),
                         testing::PrintToStringParamName());

// truestep diff.

TEST_F(ToolTest, DiffOfTheSameIsStatus0AndOfOthersStatus1) {
    record_good();
    const std::string other = file("other.safetensors");
    std::filesystem::copy_file(trace_, other);
    const ToolResult same = run_tool({"diff", trace_, other});
    EXPECT_EQ(same.status, 0);
    EXPECT_TRUE(last_line(same.output).starts_with("same: ")) << same.output;
    set_element(other, "step/0003/residual/rank1", 80, 9.0F);
    const ToolResult different = run_tool({"diff", trace_, other});
    EXPECT_EQ(different.status, 1);
    EXPECT_EQ(last_line(different.output), "different");
    EXPECT_TRUE(contains(different.output,
                         "first divergence: step 3, phase residual, residual of rank 1, tensor mlp, "
                         "index 45 (coordinate 80)"));
    EXPECT_TRUE(contains(different.output, "got 9 (0x41100000)"));
    EXPECT_TRUE(different.errors.empty());
}

TEST_F(ToolTest, DiffOfBadInputIsOneLineAndStatus2) {
    record_good();
    expect_bad_input(run_tool({"diff", trace_, file("absent")}), "absent");
    const std::string checkpoint = file("model.safetensors");
    storage::SafetensorsWriter writer(checkpoint, {{"format", "pt"}});
    writer.finish();
    for (const std::string& other : {checkpoint, file(""), checkpoint + ".index.json"})
        expect_bad_input(run_tool({"diff", trace_, other}),
                         "python -m truestep.checkpoints " + trace_ + " " + other);
    expect_bad_input(run_tool({"diff", trace_, trace_, trace_}), "see 'truestep diff --help'");
}

} // namespace
} // namespace truestep::tool
