// Tests `truestep train`: learning, seeds, checkpoints, verdicts on pairs of runs, and bad input.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tool_support.hpp"

namespace truestep::tool {
namespace {

using nlohmann::json;
using verify::scape::support::contains;
using verify::scape::support::run_tool;
using verify::scape::support::ToolResult;

class ToolTrain : public ToolTest {
  protected:
    /// A text in which each of eight letters has two possible successors.
    ToolTrain() {
        std::ofstream text(file("text"));
        std::uint64_t random = 1;
        std::uint64_t letter = 0;
        for (int i = 0; i < 6000; ++i) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            letter = (letter + 1 + 2 * (random >> 63U)) % 8;
            text << static_cast<char>('a' + letter);
        }
    }

    /// Runs a tiny training; `more` replaces its settings.
    [[nodiscard]] ToolResult train(const Arguments& more) const {
        std::map<std::string, std::string> tiny{
            {"--text", file("text")}, {"--ranks", "2"}, {"--context", "16"}, {"--width", "16"},
            {"--layers", "1"},        {"--heads", "2"}, {"--batch", "4"},    {"--steps", "150"}};
        for (const std::string& word : more)
            tiny.erase(word);
        Arguments arguments{"train", "--measure-every", "50"};
        for (const auto& [name, value] : tiny)
            arguments.insert(arguments.end(), {name, value});
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_tool(arguments);
    }
};

TEST_F(ToolTrain, EveryOptimizerLearnsMoreThanToGuess) {
    const Arguments optimizers{"adamw", "adams", "scape:0.1", "diloco:10", "gasloc:10"};
    Arguments arguments{"--json", file("curves"), "--learning-rate", "0.01", "--optimizer"};
    arguments.insert(arguments.end(), optimizers.begin(), optimizers.end());
    const ToolResult result = train(arguments);
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_TRUE(result.errors.empty()) << result.errors;
    EXPECT_TRUE(contains(result.output, "8 symbols, 5400 to learn from, 600 measured")) << result.output;
    const json curves = json::parse(std::ifstream(file("curves")))["curves"];
    ASSERT_EQ(curves.size(), optimizers.size());
    for (std::size_t i = 0; i < optimizers.size(); ++i) {
        const json& points = curves[i]["points"];
        EXPECT_EQ(curves[i]["optimizer"], optimizers[i]);
        EXPECT_TRUE(contains(result.output, "\n" + optimizers[i] + " "));
        ASSERT_EQ(points.size(), 4U);
        EXPECT_NEAR(points.front()["loss"], std::log(8.0), 0.1);
        EXPECT_EQ(points.front()["loss"], curves[0]["points"].front()["loss"]);
        EXPECT_LT(points.back()["loss"], 0.8 * std::log(8.0)) << optimizers[i];
        EXPECT_GT(points.back()["loss"], 0.98 * std::log(2.0)) << optimizers[i]; // what the text has
        EXPECT_GT(points.back()["bytes"], 0U) << optimizers[i];
    }
}

TEST_F(ToolTrain, RunsOfSeveralSeedsDifferAndAreTheSameAgain) {
    const auto losses = [this] {
        const ToolResult result =
            train({"--steps", "20", "--optimizer", "scape:0.1", "--seeds", "2", "--json", file("curves")});
        EXPECT_EQ(result.status, 0) << result.errors;
        std::vector<double> last;
        const json written = json::parse(std::ifstream(file("curves")));
        for (const json& curve : written["curves"])
            last.push_back(curve["points"].back()["loss"]);
        return last;
    };
    const std::vector<double> once = losses();
    ASSERT_EQ(once.size(), 2U);
    EXPECT_NE(once[0], once[1]);
    EXPECT_EQ(losses(), once);
}

TEST_F(ToolTrain, GoesOnFromACheckpoint) {
    const Arguments run{"--steps", "20", "--optimizer", "scape:0.1", "--checkpoints", file("kept")};
    const ToolResult once = train(run);
    ASSERT_EQ(once.status, 0) << once.errors;
    EXPECT_TRUE(std::filesystem::exists(file("kept/scape:0.1.seed-1.safetensors")));
    Arguments longer = run;
    longer[1] = "30";
    expect_bad_input(train(longer), "is of another run: steps is 30 here and 20 there");
    EXPECT_EQ(train(run).status, 0);
}

TEST_F(ToolTrain, PairsOfRunsHaveAVerdictAndAPage) {
    Arguments arguments{"--steps",
                        "30",
                        "--learning-rate",
                        "0.01",
                        "--seeds",
                        "2",
                        "--base-seeds",
                        "4",
                        "--margin",
                        "3",
                        "--report",
                        file("report"),
                        "--json",
                        file("results"),
                        "--optimizer",
                        "adams",
                        "adamw"};
    const ToolResult result = train(arguments);
    EXPECT_TRUE(contains(result.output, "floors counting reaches: bigram 0.70")) << result.output;
    const json results = json::parse(std::ifstream(file("results")));
    ASSERT_EQ(results["curves"].size(), 6U);
    EXPECT_EQ(results["curves"][3]["optimizer"], "adams");
    EXPECT_EQ(results["curves"][3]["seed"], 4);
    EXPECT_EQ(results["sigma"]["from"], 4);
    EXPECT_EQ(results["floors"].size(), 8U);
    EXPECT_EQ(results["command"][1], "train");
    ASSERT_EQ(results["verdicts"].size(), 1U);
    // Counting learns everything in this text. A run that learned no better proves nothing, so it
    // does not pass.
    EXPECT_EQ(results["verdicts"][0]["pairs"], 2);
    EXPECT_EQ(results["verdicts"][0]["verdict"], "MISTRUSTED");
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(contains(result.output, "adamw beside adams: MISTRUSTED: seed 1 of 'adams' ends at "));
    std::ifstream page(file("report/index.html"));
    const std::string html{std::istreambuf_iterator<char>(page), {}};
    EXPECT_TRUE(contains(html, "adamw"));
    EXPECT_EQ(json::parse(std::ifstream(file("report/training.json")))["verdicts"], results["verdicts"]);
}

TEST_F(ToolTrain, EachTakesItsOwnRateAndDensitiesByStepsAreAMap) {
    const ToolResult result =
        train({"--steps", "10", "20", "--learning-rate", "0.0001", "0.01", "10", "--seeds", "2", "--json",
               file("results"), "--report", file("report"), "--optimizer", "adams", "scape:0.2"});
    EXPECT_EQ(result.status, 1) << result.errors;
    EXPECT_TRUE(contains(result.output, "scape:0.2 takes learning rate 0.01 (1e-04 ")) << result.output;
    const json results = json::parse(std::ifstream(file("results")));
    ASSERT_EQ(results["curves"].size(), 8U);
    EXPECT_EQ(results["curves"][2]["optimizer"], "scape:0.2, 10 steps");
    EXPECT_EQ(results["curves"][2]["learning_rate"], 0.01);
    ASSERT_EQ(results["verdicts"].size(), 2U);
    EXPECT_EQ(results["verdicts"][1]["base"], "adams, 20 steps");
    EXPECT_FALSE(results["plan"].contains("learning_rate"));
    std::ifstream page(file("report/index.html"));
    const std::string html{std::istreambuf_iterator<char>(page), {}};
    EXPECT_TRUE(contains(html, "scape beside adams"));
}

TEST_F(ToolTrain, WhoDivergesIsMistrustedAndTheNextOneRuns) {
    // At the first rate, every step multiplies parameters by -9.
    const ToolResult result =
        train({"--steps", "60", "--learning-rate", "10", "0.01", "--weight-decay", "1", "--seeds", "2",
               "--json", file("results"), "--optimizer", "adams", "scape:0.2"});
    EXPECT_EQ(result.status, 1) << result.errors;
    EXPECT_TRUE(contains(result.output, "adams takes learning rate 0.01 (10 nan, 0.01 ")) << result.output;
    EXPECT_EQ(json::parse(std::ifstream(file("results")))["verdicts"].size(), 1U);
    const ToolResult base = train({"--steps", "60", "--learning-rate", "10", "--weight-decay", "1",
                                   "--seeds", "2", "--optimizer", "adams", "adamw"});
    expect_bad_input(base, "it takes runs that end");
    EXPECT_TRUE(contains(base.output, " nan")) << base.output;
}

TEST_F(ToolTrain, RunsOfEarlierCallsAreJudgedAsIfOneCallHadMadeThem) {
    const Arguments all{"--steps", "10", "20", "--seeds", "2", "--base-seeds", "3"};
    const auto with = [&](const Arguments& more) {
        Arguments arguments = all;
        arguments.insert(arguments.end(), more.begin(), more.end());
        return train(arguments);
    };
    ASSERT_EQ(with({"--json", file("both"), "--optimizer", "adams", "scape:0.2"}).status, 1);
    const json both = json::parse(std::ifstream(file("both")));
    const auto once = [&](const std::string& optimizer, const std::string& steps,
                          const std::string& seeds) {
        const std::string name = file(optimizer + steps);
        EXPECT_LE(
            train({"--optimizer", optimizer, "--steps", steps, "--seeds", seeds, "--json", name}).status,
            1);
        return name;
    };
    const ToolResult judged =
        train({"--curves", once("adams", "10", "3"), once("adams", "20", "3"), once("scape:0.2", "20", "2"),
               once("scape:0.2", "10", "2"), "--json", file("judged"), "--report", file("report")});
    EXPECT_EQ(judged.status, 1) << judged.errors;
    const json told = json::parse(std::ifstream(file("judged")));
    EXPECT_EQ(told["verdicts"], both["verdicts"]);
    EXPECT_EQ(told["curves"], both["curves"]);
    EXPECT_TRUE(std::filesystem::exists(file("report/map.svg")));
    EXPECT_TRUE(std::filesystem::exists(file("report/over-bytes.svg")));
    const std::string one = file("adams10");
    expect_bad_input(train({"--curves", one, "--batch", "5"}), "another setting: batch is 4 there and 5");
    expect_bad_input(train({"--curves", one, "--text", "synthetic"}), "its runs have another text, ");
    expect_bad_input(train({"--curves", one, one}), "seed 1 of 'adams' is there twice");
    expect_bad_input(train({"--curves", file("text")}), "is not JSON of training runs");
    expect_bad_input(train({"--curves", file("none")}), "none: cannot be read");
}

TEST_F(ToolTrain, WhatStandsBetweenStagesIsComparedAsOptimizersAre) {
    const Arguments compressed{"adams+fixed:4", "adams+free:4:0.01", "adams+mapl:4"};
    Arguments arguments{"--layers",    "4",       "--stages", "4",      "--learning-rate",
                        "0.01",        "--ranks", "1",        "--json", file("stages"),
                        "--optimizer", "adams"};
    arguments.insert(arguments.end(), compressed.begin(), compressed.end());
    const ToolResult result = train(arguments);
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_TRUE(contains(result.output, "windows of 16, cut into 4 stages\n")) << result.output;
    const json told = json::parse(std::ifstream(file("stages")));
    EXPECT_EQ(told["plan"]["stages"], 4);
    ASSERT_EQ(told["curves"].size(), 4U);
    const auto end = [&](std::size_t curve) { return told["curves"][curve]["points"].back(); };
    // A single rank sends only this: 3 boundaries, 64 symbols a step, 16 or 4 numbers each way, an
    // id.
    EXPECT_EQ(end(0)["bytes"], 150 * 3 * 64 * 2 * 16 * 4);
    EXPECT_EQ(end(1)["bytes"], 150 * 3 * 64 * (2 * 4 * 4 + 1));
    EXPECT_EQ(end(3)["bytes"], 150 * 3 * (64 * (2 * 4 * 4 + 1) + 2 * 4 * 16 * 4));
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_LT(end(i)["loss"], 0.8 * std::log(8.0)) << i;
    for (std::size_t i = 0; i < compressed.size(); ++i)
        EXPECT_EQ(told["curves"][i + 1]["optimizer"], compressed[i]);

    const Arguments judged{"--curves", file("stages"), "--layers", "4", "--ranks", "1"};
    expect_bad_input(train(judged), "another setting: stages is 4 there and not set here");
    Arguments fewer = judged;
    fewer.insert(fewer.end(), {"--stages", "2"});
    expect_bad_input(train(fewer), "another setting: stages is 4 there and 2 here");
    expect_bad_input(train({"--stages", "2"}), "there are 2 stages for 1 layers");
    expect_bad_input(train({"--optimizer", "adams+mapl:4"}), "and there is one; give --stages");
}

TEST_F(ToolTrain, TheMadeUpTextHasAnEntropy) {
    const ToolResult result = train({"--text", "synthetic:2", "--steps", "1", "--optimizer", "adams"});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_TRUE(
        contains(result.output, "synthetic, seed 2: 64 symbols, 262144 to learn from, 65536 measured"));
    EXPECT_TRUE(contains(result.output, "; entropy of the text ")) << result.output;
    const ToolResult other =
        train({"--text", "synthetic:2,symbols=16,kinds=4", "--steps", "1", "--optimizer", "adams"});
    EXPECT_TRUE(
        contains(other.output, "synthetic, seed 2, symbols=16,kinds=4: 16 symbols, 262144 to learn"))
        << other.output;
}

TEST_F(ToolTrain, BadInputIsOneLine) {
    expect_bad_input(train({"--text", "synthetic:x"}), "'x' is neither a seed");
    expect_bad_input(train({"--text", "synthetic:1,kinds=x"}), "'kinds=x' is neither a seed nor a setting");
    expect_bad_input(train({"--text", "synthetic:1,sorts=2"}), "'sorts=2' is neither a seed nor a setting");
    expect_bad_input(train({"--text", "synthetic:1,kinds=99"}), "kinds is 99; it must be from 1 to");
    expect_bad_input(train({"--margin", "0"}), "--margin is 0; it must be above 0");
    expect_bad_input(train({"--seeds", "3", "--base-seeds", "2"}), "it must be at least as many");
    expect_bad_input(train({"--optimizer", "adams", "adams"}), "--optimizer has one of its values twice");
    expect_bad_input(train({"--steps", "3", "3"}), "--steps has one of its values twice");
    expect_bad_input(train({"--steps", "3", "4", "--checkpoints", file("kept")}),
                     "give one number of --steps with it");
    expect_bad_input(train({"--report", file("text") + "/report"}), "cannot make the folder ");
    expect_bad_input(train({"--optimizer", "scap:0.1"}),
                     "there is no optimizer 'scap'; did you mean 'scape'?");
    expect_bad_input(train({"--optimizer", "adams", "gasloc:0.5"}), "inner steps must be a whole number");
    expect_bad_input(train({"--heads", "3"}), "width is 16; it must be a multiple of its 3 heads");
    expect_bad_input(train({"--context", "700"}), "there are 600 symbols to measure on");
    expect_bad_input(train({"--learning-rate", "-1"}), "the learning rate is -1");
    expect_bad_input(train({"--bias-correction", "some"}), "some");
    expect_bad_input(train({"--json", file("none/curves")}), "the result could not be written");
    expect_bad_input(train({"--width", "8192", "--layers", "256"}), "GiB are free");
    expect_bad_input(train({"--stepps", "3"}), "did you mean '--steps'?");
    expect_bad_input(run_tool({"train", "--text", file("none")}), "none: there is no such file");
    expect_bad_input(run_tool({"train"}), "--text is required");
    std::ofstream(file("one")) << std::string(6000, 'a');
    expect_bad_input(run_tool({"train", "--text", file("one")}), "holds one symbol alone");
}

} // namespace
} // namespace truestep::tool
