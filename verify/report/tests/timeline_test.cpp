// Tests the table and the picture of a timeline, with the recorded run of which the docs have the picture.
#include <truestep/report/timeline.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <truestep/problem/error.hpp>

#include "page_support.hpp"
#include "support.hpp"

namespace truestep::report {
namespace {

using testing::HasSubstr;

class Timelines : public testing::Test {
  protected:
    std::vector<TimelineSpan> read(const std::string& text) {
        std::ofstream(path_) << text;
        return read_timeline(path_);
    }
    ~Timelines() override { std::filesystem::remove(path_); }

    std::filesystem::path path_ =
        std::filesystem::temp_directory_path() / "truestep_timeline_read_test.json";
};

constexpr const char* two_ranks = R"([
{"name":"process_name","ph":"M","pid":0,"tid":0,"args":{"name":"rank 0"}},
{"name":"step","ph":"X","pid":0,"tid":0,"ts":5000,"dur":4000,"args":{}},
{"name":"payload","ph":"X","pid":0,"tid":0,"ts":6000,"dur":1000,"args":{"bytes":12,"waits for rank":1}},
{"name":"step","ph":"X","pid":1,"tid":0,"ts":5000,"dur":2000,"args":{}}
])";

TEST_F(Timelines, AreAddedUpByRankAndSpan) {
    const auto spans = read(two_ranks);
    ASSERT_EQ(spans.size(), 3U);
    EXPECT_EQ(spans.front().begin, 0);
    const std::string table = timeline_table(spans);
    EXPECT_THAT(table, HasSubstr("0  step         1  4.000      100.0")) << table;
    EXPECT_THAT(table, HasSubstr("0  payload      1  1.000       25.0     12  rank 1, 1.000 ms")) << table;
}

TEST_F(Timelines, AreDrawnWithABandForEachRankAndNoScript) {
    const std::string svg = timeline_picture(read(two_ranks), 0, 4);
    expect_well_formed(svg);
    EXPECT_EQ(count(svg, "class=\"span "), 3U);
    EXPECT_THAT(svg, HasSubstr(">payload \u2190 1</text>"));
    EXPECT_EQ(count(svg, ">rank "), 2U);
    EXPECT_EQ(count(svg, "<script"), 0U);
    EXPECT_EQ(count(timeline_picture(read(two_ranks), 3, 4), "class=\"span "), 1U);
}

TEST_F(Timelines, ThatAreNoneAreRefusedInOneLine) {
    for (const char* text : {"", "{}", "[]", R"([{"ph":"X"}])",
                             R"([{"ph":"X","name":"a","pid":0,"tid":0,"ts":1e300,"dur":0}])",
                             R"([{"ph":"X","name":1,"pid":0,"tid":0,"ts":0,"dur":0}])"})
        try {
            static_cast<void>(read(text));
            FAIL() << text;
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr(path_.string())) << text;
            EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        }
    EXPECT_THROW(static_cast<void>(read_timeline("/nowhere/at/all.json")), Error);
}

TEST_F(Timelines, ThePictureOfTheDocsIsThatOfTheRecordedRun) {
    const std::filesystem::path tree = TRUESTEP_SOURCE_DIR;
    std::ifstream file(tree / "docs/plots/timeline.svg");
    const std::string drawn{std::istreambuf_iterator<char>(file), {}};
    const auto spans = read_timeline(tree / "verify/report/tests/timeline.json");
    double end = 0;
    for (const TimelineSpan& span : spans)
        end = std::max(end, span.end);
    EXPECT_EQ(timeline_picture(spans, 0, end), drawn)
        << "truestep timeline verify/report/tests/timeline.json --svg docs/plots/timeline.svg";
}

} // namespace
} // namespace truestep::report
