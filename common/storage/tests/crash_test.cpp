// Ends the writer of safetensors at each of its operations, with every state that a power failure
// may leave: the file is absent, the old one or the new one, and complete.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/storage/checkpoint.hpp>
#include <truestep/storage/safetensors.hpp>

#include "memory_files.hpp"
#include "wrapped_files.hpp"

namespace truestep::storage {
namespace {

using memory::Files;
using memory::State;
using memory::Tree;

const std::string name = "/folder/file";

/// Writes a file of about three sectors.
void write_file(FileSystem& files, float value) {
    SafetensorsWriter writer(name, {{"key", "value"}}, files);
    writer.declare("a", DataType::f32, {200});
    writer.declare("b", DataType::f32, {100});
    writer.write_f32("a", std::vector<float>(200, value));
    writer.write_f32("b", std::vector<float>(100, value));
    writer.finish();
}

std::string contents(float value) {
    Files files(State({{"/folder", std::nullopt}}));
    write_file(*files.rank(0), value);
    return *files.state().contents(name);
}

struct Count {
    int operations = 0;
    std::size_t outcomes = 0;
    std::optional<std::string> torn; ///< where the writer ended, if it left neither file
};

/// Ends the writer before each operation, and after the last.
Count end_everywhere(const Files& files, const Tree& before) {
    const std::string now = contents(2);
    const auto old = before.find(name);
    Count count;
    State state = files.begin();
    const auto check = [&] {
        for (const Tree& tree : state.outcomes(7)) {
            ++count.outcomes;
            const auto found = tree.find(name);
            const bool good = found == tree.end() ? old == before.end()
                                                  : found->second == now || (old != before.end() &&
                                                                             found->second == old->second);
            if (!good && !count.torn)
                count.torn = "after operation " + std::to_string(count.operations);
        }
    };
    check();
    for (const memory::Operation& operation : files.operations()) {
        EXPECT_FALSE(state.apply(operation));
        ++count.operations;
        check();
    }
    return count;
}

class Crash : public testing::TestWithParam<bool> {
  protected:
    Tree before_{{"/folder", std::nullopt}};
    void SetUp() override {
        if (GetParam())
            before_[name] = contents(1);
    }
};

TEST_P(Crash, AFileIsAbsentOldOrNew) {
    for (const std::size_t largest_write : {std::size_t{100}, SIZE_MAX}) {
        Files files(State(before_), largest_write);
        write_file(*files.rank(0), 2);
        EXPECT_EQ(*files.state().contents(name), contents(2));
        const Count count = end_everywhere(files, before_);
        EXPECT_EQ(count.torn, std::nullopt);
        EXPECT_GE(count.operations, 7);
        EXPECT_GE(count.outcomes, 40U);
    }
}

TEST_P(Crash, ThatASyncIsMissingShows) {
    class Unsynced : public WrappedFiles {
      public:
        using WrappedFiles::WrappedFiles;
        [[nodiscard]] std::unique_ptr<OutputFile> create(const Path& path,
                                                         std::error_code& error) override {
            class Output : public WrappedOutput {
              public:
                using WrappedOutput::WrappedOutput;
                [[nodiscard]] std::error_code sync() override { return {}; }
            };
            return std::make_unique<Output>(inner().create(path, error));
        }
    };
    Files files((State(before_)));
    const auto rank = files.rank(0);
    Unsynced unsynced(*rank);
    write_file(unsynced, 2);
    EXPECT_EQ(end_everywhere(files, before_).torn, "after operation 6") << "the rename";
}

INSTANTIATE_TEST_SUITE_P(OfAFileThatWasThere, Crash, testing::Bool());

TEST(FailingWriter, EveryErrorIsToldAndLeavesTheOldFile) {
    int failed = 0;
    for (int at = 1;; ++at) {
        Files files(State({{"/folder", std::nullopt}, {name, contents(1)}}));
        const auto rank = files.rank(0);
        int count = 0;
        WatchedFiles failing(*rank, [&](OutputFile*, std::span<const std::byte>) {
            return ++count == at ? std::make_error_code(std::errc::no_space_on_device) : std::error_code();
        });
        try {
            write_file(failing, 2);
            EXPECT_EQ(failed, 7) << "create, four writes, sync, rename";
            return;
        } catch (const Error& error) {
            ++failed;
            EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos);
            EXPECT_EQ(*files.state().contents(name), contents(1));
            EXPECT_EQ(files.state().list("/folder")->size(), 1U) << "the partial file is removed";
        }
    }
}

TEST(MemoryFiles, LosesWhatWasNotSyncedAndNothingElse) {
    Files files(State({{"/a", std::nullopt}, {"/a/old", "old"}}));
    const auto rank = files.rank(0);
    const auto count = [&](const auto& holds) {
        const std::vector<Tree> trees = files.state().outcomes(1);
        return std::ranges::count_if(trees, holds);
    };
    EXPECT_EQ(files.state().outcomes(1).size(), 1U);
    std::error_code error;
    const auto file = rank->create("/a/new", error);
    ASSERT_FALSE(error);
    static_cast<void>(write_all(*file, std::as_bytes(std::span("data", 4)), error));
    EXPECT_EQ(count([](const Tree& tree) { return !tree.contains("/a/new"); }), 1) << "its name is lost";
    EXPECT_EQ(count([](const Tree& tree) { return tree.contains("/a/new") && tree.at("/a/new") == ""; }),
              1U);
    EXPECT_EQ(
        count([](const Tree& tree) { return tree.contains("/a/new") && tree.at("/a/new") == "data"; }), 1U);
    EXPECT_GE(files.state().outcomes(1).size(), 5U) << "zeros and what the disk held before, too";
    ASSERT_FALSE(file->sync());
    EXPECT_EQ(files.state().outcomes(1).size(), 2U) << "a file's sync does not keep its name";
    ASSERT_FALSE(rank->sync_folder("/a"));
    EXPECT_EQ(files.state().outcomes(1), std::vector<Tree>{files.state().seen()});
    ASSERT_FALSE(rank->rename("/a/new", "/a/old"));
    ASSERT_FALSE(rank->remove("/a/old"));
    EXPECT_EQ(files.state().outcomes(1).size(), 4U) << "changes of a folder last in any order";
    EXPECT_EQ(rank->remove("/a/old"), std::errc::no_such_file_or_directory);
}

TEST(Folder, ThatAnEndedProcessHasMadeLastsOnceAnotherNeedsIt) {
    Files files(State({{"/a", std::nullopt}}));
    const auto rank = files.rank(0);
    ASSERT_FALSE(rank->make_folder("/a/b")); // and there the process ended
    EXPECT_EQ(files.state().outcomes(1).size(), 2U) << "it may be lost";
    make_lasting_folder(*rank, "/a/b");
    EXPECT_EQ(files.state().outcomes(1), std::vector<Tree>{files.state().seen()});
}

TEST(Parts, AreNotWhatACrashHasLeft) {
    Files files(State({{"/a", std::nullopt},
                       {"/a/rank-0-of-2.safetensors", ""},
                       {"/a/rank-0-of-2.safetensors.partial", ""},
                       {"/a/rank-1-of-2.safetensors", ""},
                       {"/a/rank-0-of-3.safetensors.partial", ""}}));
    EXPECT_EQ(complete_parts(*files.rank(0), "/a", "rank"), std::vector{2});
    EXPECT_EQ(ranks_of(*files.rank(0), "/a", "rank", "step"), 2);
}

TEST(Parts, WhatIsNotOneCheckpointIsTold) {
    Files files(State({{"/a", std::nullopt},
                       {"/a/rank-0-of-2.safetensors", ""},
                       {"/a/rank-1-of-2.safetensors", ""},
                       {"/a/rank-0-of-1.safetensors", ""},
                       {"/b", std::nullopt},
                       {"/b/worker-1-of-2.safetensors", ""}}));
    const auto told = [&](const char* checkpoint, const char* what, const char* unit) {
        try {
            return "it has " + std::to_string(ranks_of(*files.rank(0), checkpoint, what, unit));
        } catch (const Error& error) {
            return std::string(error.what());
        }
    };
    EXPECT_EQ(told("/a", "rank", "step"),
              "/a: runs of 1 and of 2 ranks have saved to it; remove the files of one");
    EXPECT_EQ(told("/b", "worker", "round"),
              "/b: not all workers' files are there; use the checkpoint of an earlier round");
    EXPECT_EQ(told("/c", "worker", "round"), "/c: there is no such checkpoint; give the folder of a round");
}

} // namespace
} // namespace truestep::storage
