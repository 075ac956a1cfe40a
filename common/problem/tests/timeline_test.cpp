// Tests that a timeline is off by default, and that its newest spans are shown in their order.
#include <truestep/problem/timeline.hpp>

#include <filesystem>

#include <gtest/gtest.h>
#include <truestep/problem/error.hpp>

namespace truestep::problem {
namespace {

TEST(Timeline, IsOffUntilItIsStartedAndThenShowsItsNewestSpans) {
    { const Span span("before", 0); }
    EXPECT_EQ(Timeline::last_spans(9), "");
    const auto path = std::filesystem::temp_directory_path() / "truestep_timeline_test.json";
    Timeline::start(path);
    for (const char* name : {"one", "two", "three"})
        const Span span(name, 7);
    const std::string last = Timeline::last_spans(2);
    EXPECT_EQ(last.find("one"), std::string::npos);
    EXPECT_LT(last.find("rank 7: two"), last.find("rank 7: three"));
    Timeline::write();
    EXPECT_FALSE(Timeline::is_on());
    EXPECT_GT(std::filesystem::file_size(path), 0U);
    std::filesystem::remove(path);
}

TEST(Timeline, NamesTheFileThatCannotBeWritten) {
    EXPECT_THROW(Timeline::start("/nowhere/at/all.json"), Error);
}

} // namespace
} // namespace truestep::problem
