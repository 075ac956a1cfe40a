// Tests the HTML page of results: headline, failures, drawings, tables and escaping.
#include <truestep/report/page.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <truestep/report/junit.hpp>

#include "page_support.hpp"
#include "support.hpp"

namespace truestep::report {
namespace {

using nlohmann::ordered_json;
using verify::scape::support::contains;

TEST(Page, ItsHeadlineSaysHowItEnded) {
    EXPECT_EQ(verdict({result({row(), row()}, {property()})}), "All 3 rows passed");
    EXPECT_EQ(verdict({result({row()})}), "The one row passed");
    EXPECT_EQ(verdict({result({row(), row("FAILED")}, {property("FAILED")})}), "2 of 3 rows failed");
    EXPECT_EQ(verdict({result({row(), row("MISTRUSTED")})}), "1 of 2 rows proves nothing");
    EXPECT_EQ(verdict({result({row(), row("UNTESTED"), row("MISTRUSTED")})}), "2 of 3 rows prove nothing");
    EXPECT_EQ(verdict({result({row(), row("SKIPPED")})}), "All 1 row that ran passed, 1 was skipped");
    EXPECT_EQ(verdict({result({row("SKIPPED"), row("SKIPPED")})}),
              "Nothing was checked: all 2 rows were skipped");
    EXPECT_EQ(verdict({result({row()}, {}, {planted(), planted(false)})}),
              "The one row passed, but 1 of 2 known bugs was not caught");
    EXPECT_EQ(verdict({result({}, {}, {planted(), planted()})}), "All 2 known bugs were caught");
    EXPECT_EQ(verdict({result({}, {}, {planted(false), planted(false)})}),
              "2 of 2 known bugs were not caught");
    EXPECT_EQ(verdict({result({})}), "Nothing was checked");
    EXPECT_EQ(verdict({}), "Nothing was checked");
}

TEST(Page, TheColourOfTheWholeIsThatOfTheWorst) {
    const auto header = [](const std::vector<ordered_json>& rows,
                           const std::vector<ordered_json>& bugs = {}) {
        const std::string page = html_page({result(rows, {}, bugs)});
        const std::size_t begin = page.find("<header class=\"") + 15;
        return page.substr(begin, page.find('"', begin) - begin);
    };
    EXPECT_EQ(header({row(), row("SKIPPED")}), "passed");
    EXPECT_EQ(header({row(), row("FAILED"), row("MISTRUSTED")}), "failed");
    EXPECT_EQ(header({row(), row("MISTRUSTED")}), "doubtful");
    EXPECT_EQ(header({row(), row("UNTESTED")}), "doubtful");
    EXPECT_EQ(header({row("SKIPPED")}), "doubtful");
    EXPECT_EQ(header({}), "doubtful");
    EXPECT_EQ(header({row()}, {planted(false)}), "failed");
    EXPECT_EQ(header({}, {planted()}), "passed");
}

TEST(Page, IsOneWellFormedFileWithoutScript) {
    const std::string page =
        html_page({result({row(), row("FAILED", 3), row("SKIPPED"), row("MISTRUSTED")},
                          {property(), property("FAILED")}, {planted(), planted(false)})});
    EXPECT_TRUE(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    expect_well_formed(page);
    for (const char* foreign : {"<script", "javascript:", " onclick", "@import", "url(", "src="})
        EXPECT_FALSE(contains(page, foreign)) << foreign;
    // The name space in the tab's icon is not an address to fetch.
    EXPECT_EQ(count(page, "http"), 1U);
    EXPECT_EQ(count(page, "<h1>"), 1U);
    EXPECT_EQ(count(page, "<table"), count(page, "<caption"));
    EXPECT_EQ(count(page, "<th "), count(page, " scope=")) << "every header cell says of what";
    EXPECT_TRUE(contains(page, "prefers-color-scheme: dark"));
}

TEST(Page, EscapesWhateverANameHolds) {
    const std::string evil = "<script>alert('1')</script>\"&\x01\xff";
    const std::string safe = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;\xef\xbf\xbd";
    ordered_json bad = row("FAILED");
    bad["failure"]["drawing"]["tensors"][0]["name"] = evil;
    bad["failure"]["first"]["tensor"] = evil;
    for (const char* key :
         {"implementation", "communicator", "partition", "correction", "level", "command"})
        bad[key] = evil;
    for (const char* key : {"message", "case", "trace"})
        bad["failure"][key] = evil;
    for (const char* key : {"phase", "result", "expected", "actual", "expected_bits", "actual_bits"}) {
        bad["failure"]["first"][key] = evil;
        bad["failure"]["first"]["near"][0][key] = evil;
    }
    bad["failure"]["drawing"]["after"] = bad["failure"]["drawing"]["tensors"][0]["note"] = evil;
    for (ordered_json& lane : bad["failure"]["drawing"]["lanes"]) {
        lane["name"] = lane["title"] = evil;
        lane["values"].back() = {evil, evil, evil};
    }
    bad["failure"]["drawing"]["segments"][0]["owner"] = evil;
    ordered_json skipped = property("SKIPPED");
    for (const char* key : {"implementation", "property", "says", "reason"})
        skipped[key] = evil;
    skipped["classes"] = {{evil, 1}};
    ordered_json bug = planted();
    bug["name"] = bug["property"] = evil;
    bug["also"] = {evil, evil, evil};
    ordered_json all = result({bad}, {skipped}, {bug});
    all["environment"] = {{evil, evil}};
    all["command"] = {evil};
    const std::string page = html_page({all});
    expect_well_formed(page);
    EXPECT_FALSE(contains(page, "<script"));
    EXPECT_FALSE(contains(page, "\x01"));
    EXPECT_FALSE(contains(page, "\xff"));
    EXPECT_GT(count(page, safe), 30U);
    const std::string xml = junit_xml({all});
    expect_well_formed(xml);
    EXPECT_FALSE(contains(xml, "<script"));
    EXPECT_FALSE(contains(xml, "\x01"));
    EXPECT_TRUE(contains(xml, safe));
}

TEST(Page, AFailureIsToldInFull) {
    const std::string page = html_page({result({row("FAILED", 3)})});
    const std::string failures = section(page, "failures");
    for (const char* part :
         {"✕</span> FAILED",
          "sharded · in_process · 3 workers · density 0.1 · partition by_shard · correction adam · REL",
          "the residual differs", "<dt>step</dt><dd>2", "<dt>phase</dt><dd>residual", "<dt>rank</dt><dd>1",
          "<dt>tensor</dt><dd>wq", "<dt>index</dt><dd>1", "0x3f<mark>0</mark>00000",
          "0x3f<mark>c</mark>00000", "12,582,912 ULP apart", "<pre>truestep check --workers 3</pre>",
          "row.safetensors", "<pre>tensors=wq:2+norm:1:dense,workers=2</pre>"})
        EXPECT_TRUE(contains(failures, part)) << part << "\n" << failures;
    EXPECT_EQ(count(failures, "<tr class=\"bad\">"), 1U);
    EXPECT_TRUE(section(html_page({result({row()})}), "failures").empty());
}

ordered_json failed_of(const std::string& cause, int workers, const std::string& smallest) {
    ordered_json failed = row("FAILED", workers);
    failed["failure"]["cause"] = cause;
    failed["failure"]["case"] = smallest;
    failed["failure"]["command"] = "truestep check --property reference --case " + smallest;
    return failed;
}

TEST(Page, FailuresOfOneCauseAreOneCard) {
    const std::string page = html_page({result({failed_of("first wrong: residual", 2, "workers=2,steps=3"),
                                                failed_of("first wrong: residual", 3, "steps=1"),
                                                failed_of("first wrong: residual", 4, "workers=4"),
                                                failed_of("first wrong: next_mask", 5, "steps=2")})});
    const std::string failures = section(page, "failures");
    EXPECT_EQ(count(failures, "<article"), 2U);
    EXPECT_EQ(count(failures, "<figure"), 2U) << "each cause is drawn once";
    // The smallest case is shown, with its command; the others are folded, each with its own.
    EXPECT_TRUE(contains(failures, "<h4>The shrunk case</h4><pre>steps=1</pre>"));
    EXPECT_TRUE(contains(
        failures, "<h4>Run it again</h4><pre>truestep check --property reference --case steps=1</pre>"));
    EXPECT_TRUE(contains(failures, "2 other failures, perhaps with the same cause"));
    EXPECT_EQ(count(failures, "<div class=\"other\""), 2U);
    for (const char* command : {"--case workers=2,steps=3</pre></div>", "--case workers=4</pre></div>"})
        EXPECT_TRUE(contains(failures, command)) << command;
    for (const char* anchor : {"failure-1", "failure-2", "failure-3", "failure-4"})
        EXPECT_EQ(count(page, "id=\"" + std::string(anchor) + "\""), 1U) << anchor;
}

TEST(Page, FailuresWithoutACauseStandAlone) {
    const std::string page = html_page({result({row("FAILED", 2), row("FAILED", 3)})});
    EXPECT_EQ(count(section(page, "failures"), "<article"), 2U);
}

TEST(Page, WhatWasNotRunIsALineAndNoEmptyGrid) {
    const auto skipped = [](ordered_json row) {
        row["implementation"] = "cuda";
        return row;
    };
    const std::string page =
        html_page({result({row(), skipped(row("SKIPPED", 2)), skipped(row("SKIPPED", 3))},
                          {property(), skipped(property("SKIPPED"))})});
    const std::string line =
        "<b>cuda · in_process · REL</b> <span class=\"quiet\">2 rows skipped: there is no MPI</span>";
    EXPECT_TRUE(contains(section(page, "matrix"), line));
    EXPECT_EQ(count(page, "class=\"heat-map\""), 1U);
    EXPECT_TRUE(contains(section(page, "properties"), "1 row skipped: it has no replicas"));
    EXPECT_FALSE(contains(section(page, "rows"), "cuda"));
    // A bug that was run somewhere has its grid.
    EXPECT_EQ(count(html_page({result({row(), row("SKIPPED")})}), "class=\"heat-map\""), 1U);
}

TEST(Page, TheDrawingMarksWhatDiffers) {
    const std::string page = html_page({result({row("FAILED")})});
    const std::string figure =
        page.substr(page.find("<figure"), page.find("</figure>") - page.find("<figure"));
    EXPECT_TRUE(contains(figure, "<caption>The shrunk problem after round 2</caption>"));
    // Three coordinates of two ranks; a bit, two floats and a count are wrong, on rank 1.
    EXPECT_EQ(count(figure, "<td class=\"on"), 3U);
    EXPECT_EQ(count(figure, "<td class=\"off"), 3U);
    EXPECT_EQ(count(figure, " wrong\" title"), 4U);
    EXPECT_TRUE(contains(figure, "title=\"chosen of rank 1, wq[1]: 1, expected 0\">1<small>≠ 0</small>"));
    EXPECT_TRUE(
        contains(figure, "title=\"kept of rank 1, wq[1]: 1.5, expected 0.5\">1.5<small>≠ 0.5</small>"));
    EXPECT_TRUE(contains(figure, "title=\"age of rank 1, wq[0]: 4, expected 3\">4<small>≠ 3</small>"));
    // Values that three digits do not distinguish are distinguished by their distance.
    EXPECT_TRUE(contains(figure, ">0.333<small>≠ 1 ULP</small>"));
    EXPECT_TRUE(contains(figure, "norm (kept whole)"));
    EXPECT_EQ(count(figure, "(first divergence)"), 1U);
    // The largest is darkest, on either side of zero.
    EXPECT_TRUE(contains(figure, "<td class=\"p4 owner-edge\" title=\"given of rank 0, wq[0]: 1\""));
    EXPECT_TRUE(contains(figure, "<td class=\"m4\" title=\"given of rank 0, wq[1]: -1\""));

    ordered_json same = row("FAILED");
    for (ordered_json& lane : same["failure"]["drawing"]["lanes"])
        for (ordered_json& expected : lane["expected"])
            expected = nullptr;
    EXPECT_FALSE(contains(html_page({result({same})}), " wrong\" title"));
}

TEST(Page, TheDrawingHasTheLanesThatTheResultNames) {
    const auto figure_of = [](const ordered_json& drawn) {
        ordered_json failed = row("FAILED");
        failed["failure"]["drawing"] = drawn;
        const std::string page = html_page({result({failed})});
        expect_well_formed(page);
        return page.substr(page.find("<figure"), page.find("</section>") - page.find("<figure"));
    };
    const std::string figure = figure_of(drawing());
    // Shared values appear once, above the ranks; the others in their order.
    std::size_t at = 0;
    for (const char* heading :
         {"<span>all ranks<", ">weights<", "<span>rank 0<", ">chosen<", ">given<", ">kept<", ">age<",
          "<span>rank 1<", ">chosen<", ">given<", ">kept<", ">age<"}) {
        at = figure.find(heading, at);
        ASSERT_NE(at, std::string::npos) << heading;
    }
    EXPECT_TRUE(contains(figure, "title=\"weights of all ranks, norm[0]: 3\">3<"));
    EXPECT_TRUE(contains(figure, "<span class=\"key on\">1</span> sent in this round"));
    EXPECT_TRUE(contains(figure, "<b>kept</b> for later"));
    EXPECT_FALSE(contains(figure, "<b>given</b>")) << "it has no title";
    EXPECT_TRUE(contains(figure, "<th scope=\"row\">all ranks</th><td>2</td><td>norm[0]</td><td></td>"));

    ordered_json bare = drawing();
    bare["segments"] = ordered_json::array();
    bare["lanes"].erase(bare["lanes"].begin() + 1, bare["lanes"].end());
    const std::string bits = figure_of(bare);
    EXPECT_FALSE(contains(bits, ">owner<")) << "nobody owns anything";
    EXPECT_FALSE(contains(bits, "above zero")) << "bits have no shades";
    EXPECT_FALSE(contains(bits, "all ranks"));
}

TEST(Page, ADrawingOfManyCoordinatesHasSigns) {
    ordered_json wide = row("FAILED");
    ordered_json& grid = wide["failure"]["drawing"];
    grid["size"] = 40;
    grid["tensors"] = {{{"name", "wq"}, {"begin", 0}, {"end", 40}, {"note", ""}}};
    grid["segments"] = {{{"begin", 0}, {"end", 40}, {"owner", 0}}};
    std::vector<std::string> values(40, "-0.5");
    values[1] = "nan";
    values[2] = "0.25";
    values[3] = "inf";
    std::vector<std::string> counts(40, "7");
    counts[2] = "100";
    const std::vector<std::vector<std::string>> floats{values, values};
    const std::vector<std::vector<std::string>> ages{counts, counts};
    grid["lanes"] = {lane("kept", "", "floats", floats, {nullptr, nullptr}),
                     lane("age", "", "counts", ages, {nullptr, nullptr})};
    const std::string page = html_page({result({wide})});
    expect_well_formed(page);
    EXPECT_TRUE(contains(page, "class=\"grid dense\""));
    EXPECT_TRUE(contains(page, "wq[1]: nan\">N</td>"));
    EXPECT_TRUE(contains(page, "wq[2]: 0.25\">+</td>"));
    EXPECT_TRUE(contains(page, "wq[3]: inf\">∞</td>"));
    EXPECT_TRUE(contains(page, "wq[4]: -0.5\">−</td>"));
    EXPECT_TRUE(contains(page, "wq[1]: 7\">7</td>"));
    EXPECT_TRUE(contains(page, "wq[2]: 100\">+</td>"));
}

TEST(Page, EveryStatusHasItsWordAndSymbol) {
    const std::string page = html_page({result(
        {row(), row("FAILED"), row("SKIPPED"), row("MISTRUSTED"), row("UNTESTED")}, {}, {planted()})});
    const std::string rows = section(page, "rows");
    for (const char* badge : {"passed\"><span aria-hidden=\"true\">✓</span> PASSED",
                              "failed\"><span aria-hidden=\"true\">✕</span> FAILED",
                              "skipped\"><span aria-hidden=\"true\">–</span> SKIPPED",
                              "doubtful\"><span aria-hidden=\"true\">?</span> MISTRUSTED",
                              "doubtful\"><span aria-hidden=\"true\">?</span> UNTESTED"})
        EXPECT_EQ(count(rows, badge), 1U) << badge;
    EXPECT_TRUE(contains(rows, "there is no MPI"));
    for (const char* chip : {"<b>1</b> <span aria-hidden=\"true\">✓</span> passed",
                             "<b>1</b> <span aria-hidden=\"true\">?</span> untested",
                             "<b>1/1</b> <span aria-hidden=\"true\">✓</span> known bugs caught"})
        EXPECT_EQ(count(page, chip), 1U) << chip;
    EXPECT_EQ(count(section(page, "failures"), "<article"), 3U);
    EXPECT_TRUE(contains(section(page, "failures"), "too few of the compared values are non-zero"));
    EXPECT_TRUE(contains(section(page, "failures"), "There was nothing to compare."));
}

TEST(Page, ACellOfTheHeatMapSumsUp) {
    ordered_json other = row("FAILED");
    other["partition"] = "by_tensor";
    ordered_json sparse = row();
    sparse["density"] = 0.01;
    ordered_json exact = row();
    exact["level"] = "EXACT";
    exact["share_of_limit"] = 0;
    const std::string map =
        section(html_page({result({row(), other, sparse, row("SKIPPED", 3), exact})}), "matrix");
    EXPECT_EQ(count(map, "<table"), 2U);
    EXPECT_EQ(count(map, "<td class=\"heat failed\"><a href=\"#failure-1\">"), 1U);
    EXPECT_TRUE(contains(map, "FAILED</span> 1/2</span><span class=\"share\">100.4 %"));
    EXPECT_TRUE(contains(map, "PASSED</span> 1/1</span><span class=\"share\">31 %"));
    EXPECT_TRUE(contains(map, "PASSED</span> 1/1</span><span class=\"share\">exact"));
    EXPECT_TRUE(contains(map, "SKIPPED</span> 0/1</span><span class=\"share\">skipped"));
    EXPECT_EQ(count(map, "<td class=\"none\">"), 1U) << "3 workers at density 0.01";
    EXPECT_LT(map.find("<th scope=\"col\">0.1<"), map.find("<th scope=\"col\">0.01<"));
}

TEST(Page, PropertiesAndPlantedBugsHaveTheirTables) {
    ordered_json many = planted();
    many["also"] = {"a", "b", "<c>"};
    const std::string page = html_page({result({}, {property()}, {planted(), planted(false), many})});
    const std::string properties = section(page, "properties");
    for (const char* part : {"replicas agree", "w, m and S are the same bits.", "several ranks <b>83 %</b>",
                             "1,000", "3.2 s", "data-label=\"no.\" role=\"cell\">3<"})
        EXPECT_TRUE(contains(properties, part)) << part;
    const std::string bugs = section(page, "planted");
    for (const char* part : {"3 made, 2 caught", "CAUGHT", "NOT CAUGHT", "ties to the higher index",
                             "exactly k bits", "conservation", "3 others</summary>a, b, &lt;c&gt;",
                             "120 runs", "12 cases", "id=\"bug-1\"", "href=\"#bug-3\""})
        EXPECT_TRUE(contains(bugs, part)) << part;
    EXPECT_FALSE(contains(bugs, "bug-2")) << "there is no case of a bug that was not caught";
    EXPECT_EQ(count(bugs, "<figure"), 2U);
}

TEST(Page, TheSlowestTenAreInOrder) {
    std::vector<ordered_json> rows;
    for (int i = 0; i < 12; ++i) {
        rows.push_back(row("PASSED", i + 1));
        rows.back()["seconds"] = 0.001 * (i + 1);
    }
    const std::string slowest = section(html_page({result(rows, {property()})}), "slowest");
    EXPECT_EQ(count(slowest, "<tr>"), 11U);
    EXPECT_LT(slowest.find("3.2 s"), slowest.find(">12 ms"));
    EXPECT_LT(slowest.find(">12 ms"), slowest.find(">11 ms"));
    EXPECT_TRUE(contains(slowest, ">4 ms"));
    EXPECT_FALSE(contains(slowest, ">3 ms"));
}

TEST(Page, SaysHowItWasMade) {
    const std::string page = html_page({result({row()})});
    EXPECT_TRUE(contains(page, "<pre>truestep check --report &#39;a folder&#39;</pre>"));
    EXPECT_TRUE(contains(page, "<dt>seed</dt><dd>7"));
    EXPECT_TRUE(contains(page, "<dt>compiler</dt><dd>GNU 12.2.0"));
    EXPECT_TRUE(contains(page, "2 min 05 s"));
}

TEST(Page, SeveralFilesAreOnePage) {
    const std::string page =
        html_page({result({row()}, {property()}), result({row("FAILED", 3)}), result({}, {}, {planted()})});
    EXPECT_TRUE(contains(page, "<h1>1 of 3 rows failed</h1>"));
    EXPECT_EQ(count(page, "<div class=\"run\">"), 3U);
    EXPECT_EQ(count(section(page, "matrix"), "<table"), 1U) << "the same implementation is one map";
    EXPECT_EQ(count(section(page, "planted"), "CAUGHT"), 1U);
}

TEST(Page, WhatIsMissingIsLeftOut) {
    const ordered_json empty = ordered_json::object();
    ordered_json hollow_failure = row("FAILED");
    hollow_failure["failure"] = {{"message", "it ended early"}};
    ordered_json odd_drawing = row("FAILED");
    odd_drawing["failure"]["drawing"] = {{"size", 1e300},
                                         {"ranks", 3},
                                         {"tensors", {{{"begin", -5}, {"end", 1e300}}}},
                                         {"lanes",
                                          {empty,
                                           nullptr,
                                           3,
                                           {{"values", {nullptr, 3, {true}}}},
                                           {{"shared", true}, {"values", empty}, {"expected", {empty}}}}}};
    // Version 1 had no lanes: read_results() refuses it, and nothing is drawn.
    ordered_json earlier = row("FAILED");
    earlier["failure"]["drawing"].erase("lanes");
    earlier["failure"]["drawing"]["ranks"] = {{{"residual", {"0", "1", "2"}}}, empty};
    for (const std::vector<ordered_json>& some :
         {std::vector<ordered_json>{},
          {nullptr},
          {ordered_json::array()},
          {empty},
          {{{"rows", "none"}, {"planted", 3}}},
          {{{"rows", {empty, nullptr, 1}}, {"properties", {empty}}, {"planted", {empty}}}},
          {result({hollow_failure})},
          {result({odd_drawing})},
          {result({earlier})}}) {
        expect_well_formed(html_page(some));
        expect_well_formed(junit_xml(some));
    }
    EXPECT_TRUE(contains(html_page({result({hollow_failure})}), "it ended early"));
    EXPECT_FALSE(contains(html_page({result({hollow_failure})}), "<figure"));
    EXPECT_FALSE(contains(html_page({result({earlier})}), "<figure"));
    EXPECT_TRUE(contains(html_page({result({earlier})}), "<dt>phase</dt><dd>residual"));
    // A row without a known status has not passed.
    EXPECT_EQ(verdict({{{"rows", {empty}}}}), "1 of 1 row failed");
}

} // namespace
} // namespace truestep::report
