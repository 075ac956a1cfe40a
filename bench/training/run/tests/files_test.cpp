// Tests that curves, floors and verdicts of a training are written as JSON.
#include <cmath>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/training/results.hpp>

namespace truestep::training {
namespace {

class TrainingFiles : public testing::Test {
  protected:
    TrainingFiles() : folder_(testing::TempDir() + "training_files_" + std::to_string(getpid())) {
        std::filesystem::create_directories(folder_);
    }
    ~TrainingFiles() override { std::filesystem::remove_all(folder_); }

    std::filesystem::path folder_;
};

TEST_F(TrainingFiles, ResultsAreJson) {
    const Text text{"a\xff name", 3, {0, 1, 2}, {0, 1}, 0.5};
    TrainingResults results;
    results.curves = {{"scape:0.1", 7, 0.01, {{0, 1.25, 0}, {10, std::nan(""), 96}}}};
    results.levels.floors = {{0, 2.0}, {1, 1.5}};
    const auto path = folder_ / "curves.json";
    write_results(path, text, Plan(), results);
    const auto json = nlohmann::json::parse(std::ifstream(path));
    EXPECT_EQ(json["text"]["entropy"], 0.5);
    EXPECT_EQ(json["plan"]["ranks"], 4);
    EXPECT_EQ(json["plan"]["bias_correction"], "adam");
    EXPECT_EQ(json["curves"][0]["optimizer"], "scape:0.1");
    EXPECT_EQ(json["curves"][0]["seed"], 7);
    EXPECT_EQ(json["curves"][0]["points"][0]["loss"], 1.25);
    EXPECT_TRUE(json["curves"][0]["points"][1]["loss"].is_null());
    EXPECT_EQ(json["curves"][0]["points"][1]["bytes"], 96);
    EXPECT_EQ(json["floors"][1]["name"], "bigram");
    EXPECT_TRUE(json["sigma"].is_null());
    EXPECT_TRUE(json["verdicts"].empty());
    EXPECT_THROW(write_results(folder_ / "none" / "curves.json", text, Plan(), results), Error);
}

TEST_F(TrainingFiles, VerdictsAreJson) {
    TrainingResults results;
    results.sigma = {0.02, 3, "3 seeds"};
    Verdict verdict;
    verdict.outcome = Outcome::worse;
    verdict.difference = 0.1;
    verdict.z = std::nan("");
    results.comparisons = {{"adams", "scape:0.1", "10 steps", verdict}};
    results.made = {{"command", "truestep train"}};
    const auto path = folder_ / "results.json";
    write_results(path, {"a", 2, {0, 1}, {0, 1}, {}}, Plan(), results);
    const auto json = nlohmann::json::parse(std::ifstream(path));
    EXPECT_EQ(json["command"], "truestep train");
    EXPECT_EQ(json["sigma"]["how"], "3 seeds");
    EXPECT_EQ(json["verdicts"][0]["verdict"], "WORSE");
    EXPECT_EQ(json["verdicts"][0]["difference"], 0.1);
    EXPECT_TRUE(json["verdicts"][0]["z"].is_null());
    EXPECT_TRUE(json["verdicts"][0]["steps_ratio"].is_null());
}

} // namespace
} // namespace truestep::training
