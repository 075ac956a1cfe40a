#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tool_support.hpp"

namespace scape::verify {
namespace {

using nlohmann::json;
using support::contains;
using support::run_tool;
using support::ToolResult;

class ToolTrain : public ToolTest {
  protected:
    /// Each of eight letters is followed by one of two.
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

    /// A tiny run, with what `more` has in place of its own.
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

TEST_F(ToolTrain, BadInputIsOneLine) {
    expect_bad_input(train({"--optimizer", "scap:0.1"}),
                     "there is no optimizer 'scap'; did you mean 'scape'?");
    expect_bad_input(train({"--optimizer", "adams", "gasloc:0.5"}), "inner steps must be a whole number");
    expect_bad_input(train({"--heads", "3"}), "width is 16; it must be a multiple of its 3 heads");
    expect_bad_input(train({"--context", "700"}), "there are 600 symbols to measure on");
    expect_bad_input(train({"--learning-rate", "-1"}), "the learning rate is -1");
    expect_bad_input(train({"--bias-correction", "some"}), "some");
    expect_bad_input(train({"--json", file("none/curves")}), "cannot write ");
    expect_bad_input(train({"--width", "8192", "--layers", "256"}), "GiB are free");
    expect_bad_input(train({"--stepps", "3"}), "did you mean '--steps'?");
    expect_bad_input(run_tool({"train", "--text", file("none")}), "none: No such file or directory");
    expect_bad_input(run_tool({"train"}), "--text is required");
    expect_bad_input(train({"--optimizer", "ok-topk", "--checkpoints", file("kept")}),
                     "ok-topk cannot go on from a checkpoint");
    std::ofstream(file("one")) << std::string(2000, 'a');
    expect_bad_input(run_tool({"train", "--text", file("one")}), "it has 1 different symbols");
}

} // namespace
} // namespace scape::verify
