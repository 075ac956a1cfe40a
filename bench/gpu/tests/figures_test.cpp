// Tests statistics, goals, table, JSON and options.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

#include "gpu/figures.hpp"
#include "gpu/options.hpp"

namespace truestep::gpu::bench {
namespace {

TEST(Row, RatesAreBytesOverTheMedian) {
    const Row row{"local pass", 100, 0.1, 1200.0, {2.0, 1.0, 9.0}, 800.0, {}};
    EXPECT_EQ(row.rate(), 600.0);
    EXPECT_EQ(row.share_of_copy(), 0.75);
    EXPECT_EQ(row.times_least(), 800.0 / 600.0);
}

TEST(Goals, AreMetMissedOrNotMeasured) {
    Goal goal{"", 1.5, false, {}, {}};
    EXPECT_EQ(goal.verdict(), Verdict::not_measured);
    goal.measured = 1.5;
    EXPECT_EQ(goal.verdict(), Verdict::met);
    goal.measured = 1.51;
    EXPECT_EQ(goal.verdict(), Verdict::missed);
    goal.measured = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(goal.verdict(), Verdict::missed);
    goal.at_least = true;
    EXPECT_EQ(goal.verdict(), Verdict::missed);
    goal.measured = 1.6;
    EXPECT_EQ(goal.verdict(), Verdict::met);
}

/// Rows with a copy of 1 byte a second, so that a row's seconds equal those of the copy for the
/// same bytes.
Row row_of(std::string_view name, Index d, double density, double bytes, double seconds) {
    return {std::string(name), d, density, bytes, {seconds}, 1.0, 0};
}

const Goal& goal_with(const std::vector<Goal>& goals, const std::string& begin) {
    for (const Goal& goal : goals)
        if (goal.text.starts_with(begin))
            return goal;
    throw std::runtime_error("no goal " + begin);
}

TEST(Goals, AreThoseOfTheLargestSize) {
    constexpr Index large = least_size_of_goals;
    Report report;
    report.rows = {row_of(local_pass_row, large / 2, 0.1, 90.0, 1000.0),
                   row_of(local_pass_row, large, 0.1, 92.0, 100.0),
                   row_of(step_row, large, 0.1, 100.0, 116.0),
                   row_of(selection_row, large, 0.1, 50.0, 14.0),
                   row_of(read_row, large, 0.1, 50.0, 10.0),
                   row_of(read_row, large / 2, 0.1, 50.0, 1.0)};
    auto goals = goals_of(report);
    ASSERT_EQ(goals.size(), 4U);
    const Goal& local = goal_with(goals, "local pass, % of the copy, density 0.1, d = 2^26");
    EXPECT_NEAR(local.measured.value(), 92.0, 1e-12);
    EXPECT_EQ(local.verdict(), Verdict::met);
    EXPECT_EQ(goal_with(goals, "whole local step").verdict(), Verdict::missed) << "1.16 times";
    EXPECT_EQ(goal_with(goals, "selection").measured.value(), 1.4);
    EXPECT_EQ(goal_with(goals, "selection").verdict(), Verdict::met);
    EXPECT_EQ(goal_with(goals, "launch overhead").verdict(), Verdict::not_measured);

    report.launches = {{size_of_launches, false, {50e-6}, 5e-6}};
    EXPECT_EQ(goal_with(goals_of(report), "launch").verdict(), Verdict::not_measured) << "without a graph";
    report.launches.push_back({size_of_launches, true, {64e-6}, 5e-6});
    EXPECT_NEAR(goal_with(goals_of(report), "launch").measured.value(), 59.0, 1e-9);
    EXPECT_EQ(goal_with(goals_of(report), "launch").verdict(), Verdict::met);
    report.launches.back().seconds = {66e-6};
    EXPECT_EQ(goal_with(goals_of(report), "launch").verdict(), Verdict::missed);
}

TEST(Goals, SmallSizesProveNothing) {
    Report report;
    report.rows = {row_of(local_pass_row, least_size_of_goals / 2, 0.01, 99.0, 100.0)};
    const Goal goal = goal_with(goals_of(report), "local pass");
    EXPECT_EQ(goal.verdict(), Verdict::not_measured);
    EXPECT_NE(goal.note.find("below 2^26"), std::string::npos);
}

TEST(Report, SkippedSaysWhyAndMeasuresNothing) {
    Report report;
    report.skipped = "no GPU: there is none";
    const std::string said = text(report);
    EXPECT_NE(said.find("SKIPPED: no GPU: there is none"), std::string::npos);
    EXPECT_EQ(said.find("MET:"), std::string::npos);
    const auto written = json(report);
    EXPECT_EQ(written.at("status"), "SKIPPED");
    EXPECT_EQ(written.at("reason"), "no GPU: there is none");
    ASSERT_EQ(written.at("goals").size(), 7U);
    for (const auto& goal : written.at("goals"))
        EXPECT_EQ(goal.at("verdict"), "NOT MEASURED");
}

TEST(Report, TableAndJsonSayTheSame) {
    Report report;
    report.environment = {{"device", "a device"}};
    report.rows = {{"fold", 1 << 20, 0.1, 2048.0, {2e-6, 4e-6, 3e-6}, 1e9, 0},
                   {"other", 1000, 0.0, 0.0, {1.0}, 1e9, {}}};
    const std::string said = text(report);
    for (const char* part : {"a device", "fold", "2^20", "3.0", "68.3"})
        EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;
    const auto written = json(report);
    EXPECT_EQ(written.at("status"), "PASSED");
    EXPECT_EQ(written.at("environment").at("device"), "a device");
    EXPECT_EQ(written.at("rows")[0].at("median_seconds"), 3e-6);
    EXPECT_EQ(written.at("rows")[0].at("wrong"), 0);
    EXPECT_TRUE(written.at("rows")[1].at("wrong").is_null());
    report.rows[1].wrong = 1;
    EXPECT_EQ(json(report).at("status"), "FAILED");
    EXPECT_TRUE(report.wrong());
}

TEST(Torch, StandsBesideOrSaysWhyNot) {
    Report report;
    add_torch(report, nlohmann::json::parse(R"({"skipped": "no torch", "rows": []})"));
    ASSERT_EQ(report.notes.size(), 1U);
    EXPECT_NE(report.notes[0].find("SKIPPED, no torch"), std::string::npos);
    add_torch(report,
              nlohmann::json::parse(R"({"torch": "2.9", "rows": [{"name": "PyTorch AdamW, fused", "d": 1024,
        "bytes": 28672, "seconds": [1e-5, 2e-5, 3e-5], "copy_bytes_per_second": 2e9}]})"));
    ASSERT_EQ(report.rows.size(), 1U);
    EXPECT_EQ(report.rows[0].share_of_copy(), 28672 / 2e-5 / 2e9);
    EXPECT_THROW(add_torch(report, nlohmann::json::parse(R"({"rows": [{}]})")), Error);
}

TEST(Options, SizesAreNumbersOrPowers) {
    EXPECT_EQ(parse_size("2^20"), 1'048'576);
    EXPECT_EQ(parse_size("1000"), 1000);
    for (const char* bad : {"", "2^", "2^-1", "2^32", "0", "-5", "1e6", "2^20x"})
        EXPECT_THROW(static_cast<void>(parse_size(bad)), Error) << bad;
}

ParsedOptions parsed(std::vector<const char*> words) {
    words.insert(words.begin(), "bench_gpu");
    return parse(static_cast<int>(words.size()), words.data());
}

TEST(Options, AreParsed) {
    const auto all = parsed({"--sizes", "2^12,5000", "--densities", "0.5", "-P", "3", "--samples", "7",
                             "--require-device", "--json", "out.json"});
    ASSERT_FALSE(all.status);
    EXPECT_EQ(all.options.sizes, (std::vector<Index>{4096, 5000}));
    EXPECT_EQ(all.options.densities, std::vector<double>{0.5});
    EXPECT_EQ(all.options.workers, 3);
    EXPECT_EQ(all.options.samples, 7);
    EXPECT_TRUE(all.options.require_device);
    EXPECT_EQ(all.options.json, "out.json");
    EXPECT_EQ(parsed({}).options.sizes.back(), Index{1} << 30);
    EXPECT_EQ(parsed({"--help"}).status, 0);
    EXPECT_EQ(parsed({"--densities", "2"}).status, 2);
    EXPECT_EQ(parsed({"--torch", "there_is_none.json"}).status, 2);
    EXPECT_THROW(static_cast<void>(parsed({"--sizes", "many"})), Error);
}

} // namespace
} // namespace truestep::gpu::bench
