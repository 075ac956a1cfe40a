// Tests the job summary in Markdown: what it lists, what it escapes, and that it is added to a file.
#include <truestep/report/summary.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <truestep/problem/error.hpp>

#include "page_support.hpp"
#include "support.hpp"

namespace truestep::report {
namespace {

using nlohmann::ordered_json;
using verify::scape::support::contains;

constexpr const char* head =
    "| run | level | verdict | why | looks like | repeat with |\n|---|---|---|---|---|---|\n";

TEST(Summary, OfWhatPassedIsOneLine) {
    EXPECT_EQ(summary({result({row(), row("SKIPPED")}, {property()}, {planted()})}),
              "### truestep: All 2 rows that ran passed, 1 was skipped\n\n");
}

TEST(Summary, ListsWhatDidNotPassWithItsReasonAndItsCommand) {
    ordered_json lines = row("FAILED", 3);
    lines["failure"]["message"] = "one | two\nlines";
    lines["failure"]["fits"] = {"known bug 54", "the residual"};
    EXPECT_EQ(
        summary({result({lines, row()}, {}, {planted(false)})}),
        "### truestep: 1 of 2 rows failed; 1 of 1 known bug was not caught\n\n" + std::string(head) +
            "| sharded · in_process · 3 workers · density 0.1 · partition by_shard · correction adam · "
            "REL | REL | FAILED | one \\| two lines | known bug 54; the residual | "
            "`truestep check --workers 3` |\n"
            "| known bug 17 · ties to the higher index |  | NOT CAUGHT | No property caught this bug: the "
            "gate would let it through. |  | `truestep planted --bug 17` |\n\n");
}

TEST(Summary, OfRunsHasARowForEach) {
    const ordered_json runs{{"traces",
                             {{{"path", "good"},
                               {"level", "EXACT"},
                               {"status", "PASSED"},
                               {"failure", nullptr},
                               {"command", "a `b`"}},
                              {{"path", "none"}, {"error", "there is no such file"}}}}};
    EXPECT_EQ(runs_summary(runs), "### truestep verify\n\n" + std::string(head) +
                                      "| good | EXACT | PASSED |  |  | `a 'b'` |\n"
                                      "| none |  | BAD INPUT | there is no such file |  |  |\n\n");
}

TEST(Summary, IsAddedToAFileAndOnGitHubAnnotated) {
    const auto path = std::filesystem::temp_directory_path() / "truestep_summary_test.md";
    std::filesystem::remove(path);
    setenv("GITHUB_ACTIONS", "true", 1);
    testing::internal::CaptureStdout();
    add_summary(path, {result({row()})});
    add_summary(path, {result({row("FAILED")})});
    add_runs_summary(path,
                     {{"traces", {{{"path", "100 %"}, {"error", "two\nlines"}}, {{"status", "PASSED"}}}}});
    add_summary("", {result({row("FAILED")})});
    const std::string printed = testing::internal::GetCapturedStdout();
    unsetenv("GITHUB_ACTIONS");
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::filesystem::remove(path);
    EXPECT_TRUE(
        text.starts_with("### truestep: The one row passed\n\n### truestep: 1 of 1 row failed\n\n|"));
    EXPECT_EQ(count(printed, "::error title=truestep::"), 2U) << printed;
    EXPECT_TRUE(contains(printed, "::error title=truestep::100 %25: BAD INPUT: two%0Alines\n")) << printed;
}

TEST(Summary, NamesTheFileThatCannotBeWritten) {
    EXPECT_THROW(add_summary("/nowhere/at/all.md", {result({row()})}), Error);
}

} // namespace
} // namespace truestep::report
