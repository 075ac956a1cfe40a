// Tests that a timeline is off by default, and that its newest spans are shown in their order.
#include <truestep/problem/timeline.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <truestep/problem/error.hpp>
#include <unistd.h>

namespace truestep::problem {
namespace {

TEST(Timeline, IsOffUntilItIsStartedAndThenShowsItsNewestSpans) {
    { const Span span("before", 7); }
    EXPECT_EQ(Timeline::last_spans(7, 9), "");
    const auto path = std::filesystem::temp_directory_path() / "truestep_timeline_test.json";
    Timeline::start(path);
    for (const char* name : {"one", "two", "three"})
        const Span span(name, 7);
    const Span other("of another rank", 6);
    const Span open("four", 7);
    const std::string last = Timeline::last_spans(7, 3);
    EXPECT_THAT(last, testing::MatchesRegex("    two: for 0.00[0-9] s, ended 0.00[0-9] s ago\n"
                                            "    three: for 0.00[0-9] s, ended 0.00[0-9] s ago\n"
                                            "    four: for 0.00[0-9] s until now\n"));
    Timeline::write();
    EXPECT_FALSE(Timeline::is_on());
    EXPECT_GT(std::filesystem::file_size(path), 0U);
    std::filesystem::remove(path);
}

TEST(Timeline, AThreadKnowsItsInnermostSpanWhileItIsOff) {
    EXPECT_EQ(Span::innermost(), nullptr);
    const Span outer("outer", 3);
    { const Span over("over", 4); }
    std::thread([] { EXPECT_EQ(Span::innermost(), nullptr); }).join();
    ASSERT_EQ(Span::innermost(), &outer);
    EXPECT_EQ(Span::innermost()->name(), "outer");
    EXPECT_EQ(Span::innermost()->rank(), 3);
}

/// A child that was forked while another thread was in a span used to stop at the timeline's mutex.
TEST(Timeline, AForkedChildRecordsItsOwnSpansWhateverTheParentsThreadsDo) {
    const auto path = std::filesystem::temp_directory_path() / "truestep_timeline_fork_test.json";
    Timeline::start(path);
    std::jthread busy([](const std::stop_token& stop) {
        while (!stop.stop_requested())
            const Span span("of the parent", 1);
    });
    for (int child = 0; child < 20; ++child) {
        const pid_t process = fork();
        if (process == 0) {
            alarm(2);
            { const Span span("of a child", 0); }
            if (child == 0)
                Timeline::write();
            _exit(0);
        }
        int status = -1;
        waitpid(process, &status, 0);
        ASSERT_EQ(status, 0) << "child " << child;
    }
    busy.request_stop();
    busy.join();
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find("of a child"), std::string::npos);
    EXPECT_EQ(text.find("of the parent"), std::string::npos) << "the parent writes them itself";
    Timeline::write();
    std::filesystem::remove(path);
}

TEST(Timeline, NamesTheFileThatCannotBeWritten) {
    EXPECT_THROW(Timeline::start("/nowhere/at/all.json"), Error);
}

} // namespace
} // namespace truestep::problem
