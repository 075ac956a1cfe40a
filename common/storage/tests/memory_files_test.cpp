// Tests that the file system in memory loses what a crash of the machine may lose, and nothing else.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "memory_files.hpp"

namespace truestep::storage {
namespace {

using memory::Files;
using memory::State;
using memory::Tree;

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

} // namespace
} // namespace truestep::storage
