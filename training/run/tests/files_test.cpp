#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <scape/problem/error.hpp>
#include <scape/training/run.hpp>

namespace scape::training {
namespace {

using testing::HasSubstr;

class TrainingFiles : public testing::Test {
  protected:
    TrainingFiles() : folder_(testing::TempDir() + "training_files_" + std::to_string(getpid())) {
        std::filesystem::create_directories(folder_);
    }
    ~TrainingFiles() override { std::filesystem::remove_all(folder_); }

    [[nodiscard]] std::filesystem::path file(const std::string& name, const std::string& content) const {
        std::ofstream(folder_ / name, std::ios::binary) << content;
        return folder_ / name;
    }

    std::filesystem::path folder_;
};

TEST_F(TrainingFiles, BytesBecomeSymbolsInTheirOrder) {
    const Text text = read_bytes(file("text", "zaz\xff"
                                              "abzabaz"));
    EXPECT_EQ(text.symbols, 4U);
    EXPECT_EQ(text.learned, (std::vector<std::uint8_t>{2, 0, 2, 3, 0, 1, 2, 0, 1, 0}));
    EXPECT_EQ(text.measured, (std::vector<std::uint8_t>{2}));
    EXPECT_FALSE(text.entropy);
}

TEST_F(TrainingFiles, WhatCannotBeReadIsOneLine) {
    EXPECT_THROW(static_cast<void>(read_bytes(folder_)), Error);
    try {
        static_cast<void>(read_bytes(folder_ / "none"));
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("none: No such file or directory; give a file of text"));
    }
}

TEST_F(TrainingFiles, CurvesAreJson) {
    const Text text{"a\xff name", 3, {0, 1, 2}, {0, 1}, 0.5};
    const std::vector<Curve> curves{{"scape:0.1", 7, {{0, 1.25, 0}, {10, std::nan(""), 96}}}};
    const auto path = folder_ / "curves.json";
    write_curves(path, text, Plan(), curves);
    const auto json = nlohmann::json::parse(std::ifstream(path));
    EXPECT_EQ(json["text"]["entropy"], 0.5);
    EXPECT_EQ(json["plan"]["ranks"], 4);
    EXPECT_EQ(json["plan"]["bias_correction"], "adam");
    EXPECT_EQ(json["curves"][0]["optimizer"], "scape:0.1");
    EXPECT_EQ(json["curves"][0]["seed"], 7);
    EXPECT_EQ(json["curves"][0]["points"][0]["loss"], 1.25);
    EXPECT_TRUE(json["curves"][0]["points"][1]["loss"].is_null());
    EXPECT_EQ(json["curves"][0]["points"][1]["bytes"], 96);
    EXPECT_THROW(write_curves(folder_ / "none" / "curves.json", text, Plan(), curves), Error);
}

} // namespace
} // namespace scape::training
