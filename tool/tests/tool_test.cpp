// Tests the tool's help, usage errors, colours, and its commands `model`, `info` and `verify`.
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <truestep/problem/data.hpp>
#include <truestep/report/environment.hpp>

#include "tool_support.hpp"

namespace truestep::tool {
namespace {

using nlohmann::json;
using problem::data_class_names;
using report::environment;
using report::version;
using verify::scape::support::contains;
using verify::scape::support::load;
using verify::scape::support::run_tool;
using verify::scape::support::run_tool_on_terminal;
using verify::scape::support::ToolResult;

// Help and usage.

TEST(ToolHelp, OfEveryCommandHasExamplesAndNothingOnStandardError) {
    for (const char* command : {"verify", "record", "diff", "model", "train", "info"}) {
        const ToolResult help = run_tool({command, "--help"});
        EXPECT_EQ(help.status, 0) << command;
        EXPECT_TRUE(help.errors.empty()) << help.errors;
        EXPECT_TRUE(contains(help.output, "Example")) << command;
        EXPECT_TRUE(contains(help.output, "\n  truestep " + std::string(command) + " ")) << command;
    }
}

TEST(ToolHelp, OfEveryCommandThatCanFailGivesItsExitStatuses) {
    for (const char* command : {"verify", "record", "diff", "model", "train"})
        EXPECT_TRUE(contains(run_tool({command, "--help"}).output, "Exit status: 0 ")) << command;
}

TEST(ToolHelp, OfTheToolNamesEveryCommand) {
    const ToolResult help = run_tool({"--help"});
    EXPECT_EQ(help.status, 0);
    for (const char* command : {"verify", "record", "diff", "model", "train", "info", "--version"})
        EXPECT_TRUE(contains(help.output, command)) << command;
}

TEST(ToolHelp, OfRecordNamesEveryDataClassAndItsDefaults) {
    const std::string help = run_tool({"record", "--help"}).output;
    EXPECT_TRUE(contains(help, "--workers TEXT=3            number of ranks")) << help;
    const std::string of_gasloc = run_tool({"record", "gasloc", "--help"}).output;
    EXPECT_TRUE(contains(of_gasloc, "--workers TEXT=4            number of workers")) << of_gasloc;
    EXPECT_TRUE(contains(help, data_class_names()));
    EXPECT_TRUE(contains(help, "0.1"));
}

TEST(ToolUsage, VersionIsOneLine) {
    const ToolResult result = run_tool({"--version"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.output, "truestep " + version() + "\n");
}

TEST(ToolUsage, AMistakeIsOneLineAndStatus2) {
    expect_bad_input(run_tool({}), "subcommand");
    expect_bad_input(run_tool({"frobnicate"}),
                     "there is no subcommand 'frobnicate' (there are verify, check");
    expect_bad_input(run_tool({"--frobnicate"}), "--help");
    expect_bad_input(run_tool({"verify"}), "TRACE is required");
    expect_bad_input(run_tool({"verify", "--frobnicate", "x"}), "--frobnicate");
    expect_bad_input(run_tool({"record"}), "--output is required");
    expect_bad_input(run_tool({"record", "-o", "x", "--steps", "many"}), "--steps");
    expect_bad_input(run_tool({"record", "-o", "x", "--steps"}), "--steps");
    expect_bad_input(run_tool({"diff", "only_one"}), "B is required");
    expect_bad_input(run_tool({"info", "unasked"}), "unasked");
}

TEST(ToolUsage, WhatMayHaveBeenMeantIsNamed) {
    expect_bad_input(run_tool({"chekc"}), "no subcommand 'chekc'; did you mean 'check'?");
    expect_bad_input(run_tool({"verfy", "x"}), "did you mean 'verify'?");
    expect_bad_input(run_tool({"check", "--densty", "1"}), "--densty; did you mean '--density'?");
    expect_bad_input(run_tool({"verify", "x", "--levle=rel"}), "did you mean '--level'?");
    EXPECT_FALSE(contains(run_tool({"check", "--wildly-other"}).errors, "did you mean"));
}

// Arguments that fit nowhere.

TEST(ToolSizes, BeyondAnyMemoryAreRefusedAtOnceWithTheBytes) {
    const auto record = [](const char* option, const char* value) {
        return run_tool({"record", "-o", "unwritten", option, value});
    };
    expect_bad_input(record("--tensors", "a:1000000000000"), "takes at least 24.0 TB of memory");
    expect_bad_input(record("--steps", "1000000000000"), "takes at least 180.0 TB of memory");
    expect_bad_input(run_tool({"record", "gasloc", "-o", "unwritten", "--steps", "1000000000000"}),
                     "takes at least 240.0 TB of memory");
    expect_bad_input(
        run_tool({"check", "--implementation", "host", "--matrix", "--tensors", "a:1000000000000"}),
        "of memory");
    expect_bad_input(record("--learning-rate", "nan"), "--learning-rate is nan; it must be finite");
    expect_bad_input(record("--beta1", "inf"), "--beta1 is inf; it must be finite");
}

// Colours.

TEST_F(ToolTest, ThereAreNoColourCodesOffATerminal) {
    record_wrong();
    for (const auto& environment : std::vector<std::map<std::string, std::string>>{
             {}, {{"TERM", "xterm-256color"}}, {{"NO_COLOR", "1"}}}) {
        const ToolResult result = run_tool({"verify", trace_}, environment);
        EXPECT_FALSE(contains(result.output, "\033"));
        EXPECT_FALSE(contains(result.errors, "\033"));
    }
}

TEST_F(ToolTest, OnATerminalTheStatusIsColouredUnlessNoColorIsSet) {
    record_wrong();
    const ToolResult coloured = run_tool_on_terminal({"verify", trace_});
    if (coloured.status == -1)
        GTEST_SKIP() << "no terminal available";
    EXPECT_EQ(coloured.status, 1);
    EXPECT_TRUE(contains(coloured.output, "\033[31mFAILED\033[0m"));
    EXPECT_TRUE(contains(run_tool_on_terminal({"verify", trace_}, {{"NO_COLOR", ""}}).output, "\033[31m"))
        << "an empty NO_COLOR is none";
    EXPECT_FALSE(contains(run_tool_on_terminal({"verify", trace_}, {{"NO_COLOR", "1"}}).output, "\033"));
    record_good();
    EXPECT_TRUE(contains(run_tool_on_terminal({"verify", trace_}).output, "\033[32mPASSED\033[0m"));
    record_mistrusted();
    EXPECT_TRUE(contains(run_tool_on_terminal({"verify", trace_}).output, "\033[33mMISTRUSTED\033[0m"));
}

// truestep model.

/// The cells of the line that begins with `scheme`.
std::vector<std::string> model_row(const std::string& output, const std::string& scheme) {
    for (const std::string& line : verify::scape::support::lines(output)) {
        std::istringstream words(line);
        const std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
        if (!cells.empty() && cells[0] == scheme)
            return cells;
    }
    ADD_FAILURE() << scheme << " is not in " << output;
    return std::vector<std::string>(16);
}

TEST(ToolModel, PredictFollowsTheFormulasOfAllItsInputs) {
    // 8 d f = 6e9 B over 1e9 B/s; 3 exchanges of 0.1 s and 3 messages of 0.01 s each; passes of
    // (16 + 6/4) d bytes over 1e10 B/s, after 0.5 s of compute; 0.1 ns of processor a byte.
    const ToolResult result = run_tool(
        {"model",      "predict", "--size",      "1e9",   "--ranks",     "4",   "--density", "0.01",
         "--compute",  "0.5",     "--memory",    "1e10",  "--bandwidth", "1e9", "--latency", "0.1",
         "--overhead", "0.01",    "--transport", "1e-10", "--irregular", "1e-9"});
    ASSERT_EQ(result.status, 0) << result.errors;
    const auto dense = model_row(result.output, "dense");
    EXPECT_EQ(dense.at(1) + " " + dense.at(2), "6.00 GB");
    EXPECT_EQ(dense.at(5), "6600.000"); // values
    EXPECT_EQ(dense.at(6), "390.000");  // messages
    EXPECT_EQ(dense.at(8), "1750.000"); // local
    EXPECT_EQ(dense.at(9), "9240.000");
    EXPECT_EQ(dense.at(10), "1.00");
    const auto scape = model_row(result.output, "scape");
    EXPECT_NEAR(std::stod(scape.at(10)), 9240.0 / std::stod(scape.at(9)), 0.01);
    EXPECT_EQ(scape.at(5), "66.000"); // 8 k f
}

TEST(ToolModel, PredictOfALocalSchemeIsOfAnHthOfItsRound) {
    const auto rows = [](const char* inner_steps, const char* law) {
        const ToolResult result = run_tool({"model", "predict", "--size", "1e9", "--ranks", "4", "--memory",
                                            "1e10", "--bandwidth", "1e9", "--latency", "0.1", "--overhead",
                                            "0.01", "--inner-steps", inner_steps, "--law", law});
        EXPECT_EQ(result.status, 0) << result.errors;
        return result.output;
    };
    // pairs: 4 d bytes, one message; 20 d a step, 28 d a round. diloco: 6 d bytes, 6 messages; 10 d a
    // round.
    const auto pairs = model_row(rows("10", "pairs"), "gasloc");
    EXPECT_EQ(pairs.at(1) + " " + pairs.at(2), "400.00 MB");
    EXPECT_EQ(pairs.at(5), "400.000");
    EXPECT_EQ(pairs.at(6), "11.000");
    EXPECT_EQ(pairs.at(8), "2280.000");
    EXPECT_EQ(pairs.at(9), "2691.000");
    const auto mean = model_row(rows("100", "pairs"), "diloco");
    EXPECT_EQ(mean.at(5), "60.000");
    EXPECT_EQ(mean.at(6), "2.600");
    EXPECT_EQ(mean.at(8), "2010.000");
    const auto ring = model_row(rows("10", "ring"), "gasloc");
    EXPECT_EQ(ring.at(5), "800.000");
    EXPECT_EQ(ring.at(8), "2320.000");
    EXPECT_EQ(model_row(rows("10", "complete"), "gasloc").at(5), "1200.000");
    EXPECT_EQ(model_row(rows("10", "none"), "gasloc").at(5), "0.000");
    EXPECT_EQ(model_row(rows("1", "ring"), "dense"), model_row(rows("100", "pairs"), "dense"));
}

TEST(ToolModel, FitGivesWhatTheDocumentSays) {
    Arguments arguments{"model", "fit"};
    Arguments checked{"--check"};
    for (const auto& entry : std::filesystem::directory_iterator(TRUESTEP_MEASURED))
        (contains(entry.path().string(), "_4194304.json") ? checked : arguments)
            .push_back(entry.path().string());
    arguments.insert(arguments.end(), checked.begin(), checked.end());
    const ToolResult result = run_tool(arguments);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_TRUE(contains(result.output, "within 15 %: 29 of 32; median 8.2 %")) << result.output;
    EXPECT_TRUE(contains(result.output, "within 15 %: 12 of 16; median 8.3 %")) << result.output;
}

TEST(ToolModel, TheFitHoldsForLocalSchemesAsTheDocumentSays) {
    const std::filesystem::path results = std::filesystem::path(TRUESTEP_MEASURED).parent_path();
    Arguments arguments{"model", "fit"};
    for (const auto& entry : std::filesystem::directory_iterator(TRUESTEP_MEASURED))
        if (!contains(entry.path().string(), "_4194304.json"))
            arguments.push_back(entry.path().string());
    arguments.emplace_back("--check");
    for (const auto& entry : std::filesystem::directory_iterator(results / "gasloc_peers_07912b7"))
        arguments.push_back(entry.path().string());
    const ToolResult result = run_tool(arguments);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_TRUE(contains(result.output, "within 15 %: 10 of 14; median 6.4 %, worst 28.2 %"))
        << result.output;
    EXPECT_EQ(model_row(result.output, "gasloc:100").at(3), "0.956407");
}

TEST_F(ToolTest, ModelChecksStepsOverLinksWithADelay) {
    // A machine without costs would need 8 d f bytes at the payload's share of 1 Gbit/s, and four
    // exchanges of 20 ms: 6e6 / (125e6 1448 / 1514) s and 80 ms.
    verify::scape::support::store(file("delayed"),
                                  R"({"d": 1000000, "ranks": 4, "title": "100mbit, delay 20ms",
        "rate_bits_per_second": 1e9, "delay_seconds": 0.02,
        "rows": [{"peer": "adamw", "density": 1, "least_seconds": 0.1}]})");
    Arguments arguments{"model", "fit"};
    for (const auto& entry : std::filesystem::directory_iterator(TRUESTEP_MEASURED))
        arguments.push_back(entry.path().string());
    arguments.insert(arguments.end(), {"--check", file("delayed")});
    const ToolResult result = run_tool(arguments);
    EXPECT_EQ(result.status, 0) << result.errors;
    const std::string checked = result.output.substr(result.output.find("checked on"));
    const auto row = model_row(checked, "adamw");
    EXPECT_EQ(row.at(3), "0.956407");
    EXPECT_EQ(row.at(4), "20");
    EXPECT_GT(std::stod(row.at(6)), 80 + 50.2);
    EXPECT_LT(std::stod(row.at(6)), 80 + 50.2 + 20); // what the machine takes besides
    verify::scape::support::store(file("threads"),
                                  R"({"d": 1, "ranks": 4, "title": "", "rate_bits_per_second": 0,
        "rows": [{"peer": "adamw", "density": 1, "least_seconds": 0.1}]})");
    expect_bad_input(run_tool({"model", "fit", file("threads")}), "names no rate");
}

TEST(ToolModel, PaperAndScaleSayWhatBreaksFirst) {
    EXPECT_TRUE(contains(run_tool({"model", "paper"}).output, "Llama-1.8B"));
    const std::string scale = run_tool({"model", "scale"}).output;
    EXPECT_TRUE(contains(scale, "| local\n"));
    EXPECT_TRUE(contains(scale, "16384"));
    EXPECT_TRUE(contains(scale, "| messages\n"));
}

TEST_F(ToolTest, ModelPlotsAreWrittenToAFolderThatIsMade) {
    const ToolResult result = run_tool({"model", "plots", file("made")});
    EXPECT_EQ(result.status, 0) << result.errors;
    for (const char* plot : {"step-by-ranks", "scape-parts", "speed-up-by-link"})
        EXPECT_TRUE(load(folder_ / ("made/" + std::string(plot) + ".svg")).starts_with("<svg")) << plot;
}

TEST_F(ToolTest, ModelOfBadInputIsOneLineAndStatus2) {
    expect_bad_input(run_tool({"model"}), "subcommand");
    expect_bad_input(run_tool({"model", "predict", "--density", "2"}), "--density");
    expect_bad_input(run_tool({"model", "predict", "--bandwidth", "0"}), "--bandwidth");
    expect_bad_input(run_tool({"model", "predict", "--inner-steps", "0"}), "--inner-steps");
    expect_bad_input(run_tool({"model", "predict", "--law", "explicit"}), "--law");
    expect_bad_input(run_tool({"model", "predict", "--ranks", "6", "--law", "hypercube"}),
                     "a hypercube of 6 workers does not exist");
    expect_bad_input(run_tool({"model", "fit", file("absent")}), "absent");
    verify::scape::support::store(file("other"), R"({"rows": [{"peer": 3}]})");
    expect_bad_input(run_tool({"model", "fit", file("other")}), "not the output of bench_peers");
    verify::scape::support::store(file("folder"), "");
    expect_bad_input(run_tool({"model", "plots", file("folder")}), "folder");
}

// truestep info.

TEST(ToolInfo, TellsVersionsAsTextAndAsJson) {
    const ToolResult text = run_tool({"info"});
    EXPECT_EQ(text.status, 0);
    for (const auto& [what, value] : environment()) {
        EXPECT_TRUE(contains(text.output, what)) << what;
        EXPECT_TRUE(contains(text.output, value)) << value;
    }
    const ToolResult as_json = run_tool({"info", "--json"});
    EXPECT_EQ(as_json.status, 0);
    const json parsed = json::parse(as_json.output);
    EXPECT_EQ(parsed.at("truestep"), version());
    EXPECT_TRUE(contains(parsed.at("arithmetic").get<std::string>(), "-ffp-contract=off"));
}

// The trace has several pieces, which threads share.
TEST_F(ToolTest, ThreadsDoNotShowInAVerdict) {
    const ToolResult made = run_tool({"record", "-o", trace_, "--workers", "2", "--steps", "1", "--tensors",
                                      "a:66000,c:20000:dense,d:10"});
    ASSERT_EQ(made.status, 0) << made.errors;
    for (const bool wrong : {false, true}) {
        if (wrong)
            verify::scape::support::set_element(trace_, "step/0001/parameters", 76000, 0.75F);
        const auto verdict = [&](const std::string& threads) {
            const ToolResult result = run_tool({"verify", "--threads", threads, trace_});
            EXPECT_EQ(result.status, wrong ? 1 : 0) << result.output << result.errors;
            return result.output.substr(result.output.find('\n')); // after the command
        };
        const std::string one = verdict("1");
        EXPECT_TRUE(!wrong || contains(one, "tensor c, index 10000 (coordinate 76000)")) << one;
        for (const char* threads : {"3", "17"})
            EXPECT_EQ(verdict(threads), one) << threads;
    }
    for (const char* threads : {"0", "-1", "x"}) {
        const ToolResult refused = run_tool({"verify", "--threads", threads, trace_});
        EXPECT_EQ(refused.status, 2);
        EXPECT_TRUE(contains(refused.errors, "--threads")) << refused.errors;
    }
}

TEST_F(ToolTest, APartOfARunIsRecordedAndVerified) {
    for (const char* clip : {"0", "0.5"}) {
        const ToolResult made = run_tool(
            {"record", "-o", trace_, "--begin", "3", "--sample", "embed@39,norm", "--clip-norm", clip});
        ASSERT_EQ(made.status, 0) << made.errors;
        const ToolResult right = run_tool({"verify", trace_});
        EXPECT_EQ(right.status, 0) << right.output;
        EXPECT_TRUE(contains(right.output, "sampled: 11 of 100 coordinates, 2 of 5 segments"))
            << right.output;
        EXPECT_TRUE(contains(right.output, "begins after step 3"));
    }
    const ToolResult page = run_tool({"verify", "--report", (folder_ / "page").string(), trace_});
    EXPECT_EQ(page.status, 0) << page.errors;
    const ToolResult none = run_tool({"record", "-o", trace_, "--sample", "nobody"});
    EXPECT_EQ(none.status, 2);
    EXPECT_TRUE(contains(none.errors, "there is no tensor 'nobody'")) << none.errors;
}

} // namespace
} // namespace truestep::tool
