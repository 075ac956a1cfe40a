// Tests the page and JUnit of recorded runs.
#include <truestep/report/runs.hpp>

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <truestep/report/page.hpp>

#include "page_support.hpp"
#include "support.hpp"

namespace truestep::report {
namespace {

using nlohmann::ordered_json;
using verify::scape::support::contains;

/// A list of one element; braces alone would give the element.
ordered_json only(const ordered_json& element) {
    ordered_json list = ordered_json::array();
    list.push_back(element);
    return list;
}

ordered_json phase_row(const std::string& result, const std::string& status, int compared = 24,
                       int mismatched = 0) {
    return {{"phase", result}, {"result", result},      {"compared", compared}, {"mismatched", mismatched},
            {"unbounded", 0},  {"max_ulp", mismatched}, {"share_of_limit", 0},  {"status", status}};
}

ordered_json curve_of(const ordered_json& values) {
    return {{"name", "gradient norm"},
            {"says", "What it is."},
            {"lines", only({{"name", "rank 0"}, {"values", values}})}};
}

ordered_json good_run() {
    return {{"path", "good.safetensors"},
            {"status", "PASSED"},
            {"problem", "scape, 2 workers"},
            {"level", "exact"},
            {"from", "recorded"},
            {"seconds", 0.5},
            {"command", "truestep verify good.safetensors"},
            {"rows", {phase_row("residual", "PASSED"), phase_row("local", "UNTESTED", 0)}},
            {"notes", ordered_json::array()},
            {"fits", ordered_json::array()},
            {"curves", only(curve_of({0, 5, 10}))},
            {"maps", ordered_json::array()},
            {"failure", nullptr}};
}

/// Two steps, two tensors of 4 and 8 values; the residual of the second is wrong at step 2.
ordered_json wrong_run() {
    ordered_json run = good_run();
    run["path"] = "wrong.safetensors";
    run["status"] = "FAILED";
    run["fits"] = only("matches known bug 6: a name");
    run["rows"] = {phase_row("residual", "FAILED", 24, 3), phase_row("local", "UNTESTED", 0)};
    run["maps"] = ordered_json::parse(R"([
        {"phase": "residual", "result": "residual", "columns": [{"from": 1, "to": 1}, {"from": 2, "to": 2}],
         "rows": [{"name": "norm", "begin": 0, "end": 4, "cells": [[0, 4], null]},
                  {"name": "wq", "begin": 4, "end": 12, "cells": [[0, 8], [3, 8]]}]},
        {"phase": "local", "result": "local", "columns": [{"from": 1, "to": 2}],
         "rows": [{"name": "norm", "begin": 0, "end": 4, "cells": [null]}]}])");
    ordered_json first = failure()["first"];
    first.update({{"step", 2}, {"phase", "residual"}, {"result", "residual"}, {"coordinate", 5}});
    run["failure"] = {{"message", "step 2, phase residual"},
                      {"note", "a margin of 3 ULP"},
                      {"details", "  first divergence: step 2\n"},
                      {"first", first}};
    return run;
}

ordered_json runs_of(const ordered_json& traces) {
    return {{"command", {"truestep", "verify"}},
            {"environment", {{"compiler", "GNU 12.2.0"}}},
            {"traces", traces}};
}

std::string page_of(const ordered_json& run) {
    return runs_page(runs_of(only(run)));
}

TEST(RunsPage, ACurveIsWhereItsNumbersAre) {
    const std::string page = page_of(good_run());
    EXPECT_TRUE(contains(page, "<path class=\"curve line0\" d=\"M50 154L201 83L352 12\"/>"))
        << "0 at the foot, 10 at the top, half of it between";
    EXPECT_TRUE(contains(page, "y=\"157.5\">0</text>"));
    EXPECT_TRUE(contains(page, "y=\"86.5\">5</text>"));
    EXPECT_TRUE(contains(page, "y=\"15.5\">10</text>"));
    EXPECT_TRUE(contains(page, "<th scope=\"row\">3</th><td>10</td>"));
    EXPECT_TRUE(contains(page, "<h1>The run is right</h1>"));
    expect_well_formed(page);
}

TEST(RunsPage, WhatWasNotRecordedIsAGapAndNoZero) {
    ordered_json run = good_run();
    run["curves"] = only(curve_of({10, nullptr, 10, 10}));
    const std::string page = page_of(run);
    EXPECT_TRUE(contains(page, "<path class=\"curve line0\" d=\"M251.3 12L352 12\"/>"));
    EXPECT_TRUE(contains(page, "<path class=\"dot line0\" d=\"M50 12h0\"/>"));
    EXPECT_TRUE(contains(page, "not recorded, or there is none, at 1 of 4 points"));
    EXPECT_TRUE(contains(page, "<th scope=\"row\">2</th><td>–</td>"));
    run["curves"] = only(curve_of({nullptr, nullptr}));
    const std::string none = page_of(run);
    EXPECT_TRUE(contains(none, "<p class=\"absent-chart\">not recorded</p>"));
    EXPECT_FALSE(contains(none, "<path class=\"curve"));
    EXPECT_FALSE(contains(none, "<path class=\"dot"));
    run["curves"] = only(curve_of({1, "nan", "inf"}));
    EXPECT_TRUE(contains(page_of(run), "no finite number at 2 of 3 points"));
}

TEST(RunsPage, ManyStepsShareAPointAndASpikeIsStillSeen) {
    ordered_json values = ordered_json::array();
    for (int step = 0; step < 100'000; ++step)
        values.push_back(step == 50'000 ? 100 : 1);
    ordered_json run = good_run();
    run["curves"] = only(curve_of(values));
    const std::string page = page_of(run);
    EXPECT_LT(page.size(), 60'000U);
    EXPECT_TRUE(contains(page, "<path class=\"range line0\" d=\"M")) << "from the least to the greatest";
    EXPECT_TRUE(contains(page, "y=\"15.5\">100</text>"));
    EXPECT_TRUE(contains(page, ">step 100000</text>"));
}

TEST(RunsPage, ManyRanksAreToldByLeastMiddleAndGreatest) {
    ordered_json curve = curve_of({});
    curve["lines"] = ordered_json::array();
    for (int rank = 0; rank < 99; ++rank)
        curve["lines"].push_back({{"name", "rank " + std::to_string(rank)}, {"values", only(rank + 1)}});
    ordered_json run = good_run();
    run["curves"] = only(curve);
    const std::string page = page_of(run);
    EXPECT_TRUE(contains(page, "<th scope=\"row\">1</th><td>1</td><td>50</td><td>99</td>"));
    EXPECT_EQ(count(page, "<path class=\"dot"), 3U);
}

TEST(RunsPage, AMapShowsWhatDiffersAndWhereItBegan) {
    const std::string page = page_of(wrong_run());
    EXPECT_TRUE(contains(page, "<title>step 2, wq: 3 of 8 values differ (38 %)</title>"));
    EXPECT_TRUE(contains(page, "<title>step 2, norm: not recorded</title>"));
    EXPECT_EQ(count(page, "<rect class=\"bad\""), 1U);
    EXPECT_EQ(count(page, "<rect class=\"absent\""), 1U);
    EXPECT_EQ(count(page, "<title>the first divergence</title>"), 1U);
    // In the second column of the second row.
    EXPECT_TRUE(contains(page, "<rect class=\"first-here\" x=\"228\" y=\"30\""));
    EXPECT_TRUE(contains(page, "<h5>local</h5><p class=\"absent-chart\">not recorded</p>"));
    EXPECT_TRUE(contains(page, "matches known bug 6"));
    EXPECT_TRUE(contains(page, "a margin of 3 ULP"));
    EXPECT_TRUE(contains(page, "<h1>The run is wrong</h1>"));
    expect_well_formed(page);
}

TEST(RunsPage, ANameThatIsTooLongForItsRowStandsAboveItInFull) {
    ordered_json run = wrong_run();
    const std::string name = "model.layers.11.self_attn.q_proj.weight";
    run["maps"][0]["rows"][1]["name"] = name;
    const std::string page = page_of(run);
    EXPECT_TRUE(contains(page, ">" + name + "</text>"));
    EXPECT_TRUE(contains(page, "<rect class=\"first-here\" x=\"180\" y=\"56\""));
    expect_well_formed(page);
}

TEST(RunsPage, AFailedRowIsBeyondItsLimit) {
    EXPECT_TRUE(contains(page_of(wrong_run()), "data-label=\"of limit\" role=\"cell\">&gt;100 %</td>"));
    EXPECT_FALSE(contains(page_of(good_run()), "&gt;100 %"));
}

TEST(RunsPage, SpeaksOfRoundsAndWorkersWhereTheSystemDoes) {
    ordered_json run = wrong_run();
    run["words"] = {{"step", "round"}, {"rank", "worker"}};
    run["failure"]["first"]["words"] = run["words"];
    const std::string page = page_of(run);
    for (const char* shown : {"<dt>each round begins at</dt>", "<dt>round</dt>", "<dt>worker</dt>",
                              "<title>round 2, wq: ", "by round and tensor", ">round 3</text>"})
        EXPECT_TRUE(contains(page, shown)) << shown;
}

TEST(RunsPage, SaysWhatMistrustedMeans) {
    ordered_json run = good_run();
    run["rows"][0]["status"] = "MISTRUSTED";
    EXPECT_TRUE(contains(page_of(run), "MISTRUSTED: no difference was found, but too few"));
    EXPECT_FALSE(contains(page_of(good_run()), "MISTRUSTED"));
}

TEST(RunsPage, OfManyRunsTheWrongOnesComeFirstAndTheRestIsFolded) {
    ordered_json unread = {{"path", "<odd & \"name\">"}, {"error", "it is no trace"}};
    const std::string page = runs_page(runs_of({good_run(), wrong_run(), unread}));
    EXPECT_TRUE(contains(page, "<h1>2 of 3 runs did not pass</h1>"));
    EXPECT_LT(page.find("id=\"run-1\""), page.find("What it did"));
    EXPECT_EQ(count(page, "<summary>What it did</summary>"), 1U);
    EXPECT_TRUE(contains(page, "NOT READ"));
    EXPECT_TRUE(contains(page, "&lt;odd &amp; &quot;name&quot;&gt;"));
    EXPECT_FALSE(contains(page, "<odd"));
    expect_well_formed(page);
    ordered_json many = ordered_json::array();
    for (int i = 0; i < 60; ++i)
        many.push_back(good_run());
    EXPECT_EQ(count(runs_page(runs_of(many)), "Its drawings are left out"), 20U);
    EXPECT_TRUE(contains(runs_page(runs_of(ordered_json::array())), "Nothing was checked"));
}

TEST(GatesPage, SaysWhatRelAndMistrustedMean) {
    ordered_json rel = row("MISTRUSTED");
    rel["level"] = "REL";
    const std::string page = html_page({result({rel})});
    EXPECT_TRUE(contains(page, "REL: each value lies within a bound on the rounding of fp32"));
    EXPECT_TRUE(contains(page, "MISTRUSTED: no difference was found, but too few"));
    ordered_json bits = row();
    bits["level"] = "EXACT";
    const std::string exact = html_page({result({bits})});
    EXPECT_FALSE(contains(exact, "REL: each value"));
    EXPECT_FALSE(contains(exact, "MISTRUSTED: no difference"));
}

TEST(RunsJUnit, HasACaseForEachRowAndTheVerdict) {
    const ordered_json unread = {{"path", "none"}, {"error", "it is no trace"}};
    const std::string xml = runs_junit(runs_of({good_run(), wrong_run(), unread}));
    EXPECT_TRUE(contains(
        xml, "<testsuites name=\"truestep\" tests=\"7\" failures=\"2\" errors=\"1\" skipped=\"2\""));
    EXPECT_TRUE(contains(xml, "<testcase classname=\"good.safetensors\" name=\"residual residual\" "
                              "time=\"0.000000\"/>"));
    EXPECT_TRUE(contains(xml, "<skipped message=\"not recorded\">not recorded</skipped>"));
    EXPECT_EQ(count(xml, "<failure message=\"FAILED: step 2, phase residual\" type=\"failed\">"), 2U)
        << "the verdict and the row";
    EXPECT_TRUE(
        contains(xml, "first divergence: step 2\nwhat may be wrong: matches known bug 6: a name\n"));
    EXPECT_TRUE(
        contains(xml, "<error message=\"it is no trace\" type=\"bad input\">it is no trace</error>"));
    expect_well_formed(xml);
}

// A run whose values all agree may still differ in something else, such as fingerprints.
TEST(RunsJUnit, TheRowAtWhichARunPartsFailsWhateverItsCounts) {
    ordered_json run = wrong_run();
    run["rows"][0] = phase_row("residual", "PASSED");
    EXPECT_EQ(count(runs_junit(runs_of(only(run))), "<failure "), 2U);
    ordered_json doubtful = good_run();
    doubtful["status"] = "MISTRUSTED";
    EXPECT_TRUE(contains(runs_junit(runs_of(only(doubtful))),
                         "<failure message=\"MISTRUSTED: too little was compared to prove anything\""));
}

} // namespace
} // namespace truestep::report
