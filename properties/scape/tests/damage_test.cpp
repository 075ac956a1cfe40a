// Damaged checkpoints: how the gate makes them, and that it detects implementations that accept one.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/gate/gate_main.hpp>
#include <truestep/properties/scape/damage.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

#include "search_support.hpp"

namespace truestep::properties::scape {
namespace {

namespace fs = std::filesystem;
using distributed::Communicator;
using Kind = Damage::Kind;

class Folder {
  public:
    Folder() : path_(fs::path(testing::TempDir()) / ("damage_test_" + std::to_string(getpid()))) {
        fs::remove_all(path_);
        fs::create_directories(path_ / "deeper");
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    void write(const std::string& name, const std::string& bytes) const {
        std::ofstream(path_ / name, std::ios::binary) << bytes;
    }
    [[nodiscard]] std::string read(const std::string& name) const {
        std::ifstream file(path_ / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    [[nodiscard]] const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

TEST(Damage, ChangesOneFileAndSaysWhat) {
    const Folder folder;
    const auto after = [&](const Damage& damage) {
        folder.write("a", "0123");
        folder.write("deeper/b", "4567");
        folder.write("empty", "");
        const std::string said = make_damage(folder.path(), damage);
        return said + "|" + folder.read("a") + "|" + folder.read("deeper/b") + "|" + folder.read("empty");
    };
    EXPECT_EQ(after({Kind::bit, 0, 0, 0}), "a with bit 0 of byte 0 of 4 turned over|1123|4567|");
    EXPECT_EQ(after({Kind::bit, 1, -1, 2}), "deeper/b with bit 2 of byte 3 of 4 turned over|0123|4563|");
    EXPECT_EQ(after({Kind::bit, 2, 6, 1}), "a with bit 1 of byte 2 of 4 turned over|0103|4567|")
        << "numbers go round";
    EXPECT_EQ(after({Kind::shorter, 1, 0, 0}), "deeper/b without the last of its 4 bytes|0123|456|");
    EXPECT_EQ(after({Kind::longer, 0, 0, 0}),
              "a with a byte behind its 4|" + std::string("0123\0", 5) + "|4567|");
    EXPECT_EQ(after({}), "a as it was|0123|4567|");
}

TEST(Damage, WhereThereIsNothingNothingIsDone) {
    const Folder folder;
    folder.write("empty", "");
    EXPECT_EQ(make_damage(folder.path(), {Kind::bit, 0, 0, 0}), "");
    EXPECT_EQ(folder.read("empty"), "");
    EXPECT_THROW(static_cast<void>(make_damage(folder.path() / "missing", {Kind::bit, 0, 0, 0})),
                 fs::filesystem_error);
}

/// Keeps its checkpoints where the gate does not look, as in a database.
class KeepsNoFiles final : public Changed {
  public:
    using Changed::Changed;
    void save(const fs::path& folder) override {
        fs::create_directory(elsewhere(folder));
        Changed::save(elsewhere(folder));
    }
    void restore(const fs::path& folder) override { Changed::restore(elsewhere(folder)); }

  private:
    static fs::path elsewhere(const fs::path& folder) { return folder.string() + "_elsewhere"; }
};

/// Ignores that a restore was refused.
class GoesOnAsIfRestored final : public Changed {
  public:
    using Changed::Changed;
    void restore(const fs::path& folder) override {
        try {
            Changed::restore(folder);
        } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): the mistake
        }
    }
};

/// Leaves notes that are never read.
class HasBytesThatCarryNothing final : public Changed {
  public:
    using Changed::Changed;
    void save(const fs::path& folder) override {
        fs::create_directory(folder.string() + "_elsewhere");
        Changed::save(folder.string() + "_elsewhere");
        std::ofstream(folder / "notes") << "saved by a test";
    }
    void restore(const fs::path& folder) override { Changed::restore(folder.string() + "_elsewhere"); }
};

template <class Kept>
std::string said_of(const std::string& name) {
    ImplementationSpec ranked{.name = name, .make = [](const Setup& setup, Communicator& ranks) {
                                  return std::make_unique<Kept>(setup, ranks);
                              }};
    const gate::System system = system_with(std::vector<ImplementationSpec>{std::move(ranked)});
    std::vector<std::string> words{name, "--property", "restart.damage", "--cases", "60"};
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    testing::internal::CaptureStdout();
    static_cast<void>(gate::gate_main(static_cast<int>(arguments.size()), arguments.data(), {system}));
    return testing::internal::GetCapturedStdout();
}

TEST(Damage, WhoKeepsNoFilesIsSkippedWithTheReason) {
    EXPECT_THAT(said_of<KeepsNoFiles>("elsewhere"),
                testing::AllOf(testing::HasSubstr("it leaves no file in the folder that it saves to"),
                               testing::HasSubstr("0 passed, 0 failed, 1 skipped")));
}

TEST(Damage, WhatCarriesNothingMayBeRestored) {
    EXPECT_THAT(said_of<HasBytesThatCarryNothing>("notes"),
                testing::HasSubstr("1 passed, 0 failed, 0 skipped"));
}

TEST(Damage, ItIsFoundWhoGoesOnFromNothing) {
    const auto result = search_for(*made_by<GoesOnAsIfRestored>(), "restart.damage");
    ASSERT_TRUE(result.counterexample);
    EXPECT_THAT(result.counterexample->line, testing::HasSubstr("damage=bit:0:0:0"));
    EXPECT_THAT(result.counterexample->finding->message(),
                testing::HasSubstr("the checkpoint was restored, and not to what it was"));
    EXPECT_FALSE(search_for(*made_by<Changed>(), "restart.damage").counterexample);
}

TEST(Damage, ATraceEndsBeforeIt) {
    const auto plain = made_by<Changed>();
    Case run = parse_case("tensors=a:13,workers=2,density=0.3,damage=bit:1:-1:0");
    Trial trial(*plain, run);
    Scenario scenario = trial.steps(run, 4);
    scenario.actions[2].kind = Action::Kind::damage;
    scenario.actions[2].damage = run.damage;
    EXPECT_EQ(trial.tolerant(scenario).after[2].outcomes.back().kind, Outcome::Kind::refused);
    const Folder folder;
    const auto path = folder.path() / "trace.safetensors";
    ASSERT_TRUE(save_trace(path, trial.runs().back(), "test"));
    EXPECT_EQ(verify::scape::verify_trace(path, {}).status, verify::Status::passed);
}

} // namespace
} // namespace truestep::properties::scape
