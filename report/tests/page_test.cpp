#include <scape/report/page.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <scape/report/junit.hpp>
#include <scape/report/page_data.hpp>

#include "support.hpp"

namespace scape::report {
namespace {

using nlohmann::ordered_json;
using verify::support::contains;
using verify::support::error_of;
using verify::support::store;
using verify::support::TemporaryFolder;

ordered_json lane(const std::string& name, const std::string& title, const std::string& kind,
                  const ordered_json& values, const ordered_json& expected) {
    return {{"name", name},     {"title", title},      {"kind", kind}, {"shared", values.size() == 1},
            {"values", values}, {"expected", expected}};
}

/// Two ranks and lanes of every kind; of rank 0 it is not known what they should be.
ordered_json drawing() {
    using Rows = std::vector<std::vector<std::string>>;
    const ordered_json unknown;
    const auto rows = [](const Rows& texts) { return ordered_json(texts); };
    const auto of_rank_1 = [](const std::vector<std::string>& expected) {
        return ordered_json::array({nullptr, expected});
    };
    return {
        {"after", "round 2"},
        {"size", 3},
        {"ranks", 2},
        {"tensors",
         {{{"name", "wq"}, {"begin", 0}, {"end", 2}, {"note", ""}},
          {{"name", "norm"}, {"begin", 2}, {"end", 3}, {"note", "kept whole"}}}},
        {"segments", {{{"begin", 0}, {"end", 2}, {"owner", 0}}, {{"begin", 2}, {"end", 3}, {"owner", 1}}}},
        {"lanes",
         {lane("chosen", "sent in this round", "bits", rows({{"1", "0", "0"}, {"1", "1", "0"}}),
               of_rank_1({"1", "0", "0"})),
          lane("given", "", "floats", rows({{"1", "-1", "0"}, {"1", "-1", "0"}}), {nullptr, nullptr}),
          lane("kept", "for later", "floats",
               rows({{"0", "0.5", "0.33333334"}, {"0", "1.5", "0.33333337"}}),
               of_rank_1({"0", "0.5", "0.33333334"})),
          lane("age", "rounds ago", "counts", rows({{"0", "3", "12"}, {"4", "0", "12"}}),
               of_rank_1({"3", "0", "12"})),
          lane("weights", "of all", "floats", rows({{"1", "-2", "3"}}), ordered_json::array({unknown}))}}};
}

ordered_json failure() {
    ordered_json first{{"step", 2},
                       {"phase", "residual"},
                       {"result", "residual"},
                       {"rank", 1},
                       {"tensor", "wq"},
                       {"index", 1},
                       {"coordinate", 1},
                       {"expected", "0.5"},
                       {"actual", "1.5"},
                       {"expected_bits", "0x3f000000"},
                       {"actual_bits", "0x3fc00000"}};
    first["near"] = {{{"coordinate", 0},
                      {"expected", "0"},
                      {"actual", "0"},
                      {"expected_bits", "0x00000000"},
                      {"actual_bits", "0x00000000"},
                      {"ok", true}},
                     {{"coordinate", 1},
                      {"expected", "0.5"},
                      {"actual", "1.5"},
                      {"expected_bits", "0x3f000000"},
                      {"actual_bits", "0x3fc00000"},
                      {"ok", false}}};
    return {{"message", "the residual differs"},
            {"case", "tensors=wq:2+norm:1:dense,workers=2"},
            {"trace", "row.safetensors"},
            {"first", first},
            {"drawing", drawing()}};
}

ordered_json row(const std::string& status = "PASSED", int workers = 2) {
    return {{"implementation", "sharded"},
            {"communicator", "in_process"},
            {"workers", workers},
            {"density", 0.1},
            {"partition", "by_shard"},
            {"correction", "adam"},
            {"level", "REL"},
            {"cases", 8},
            {"compared", 12345},
            {"wrong", status == "FAILED" ? 3 : 0},
            {"max_ulp", status == "FAILED" ? ordered_json("inf") : ordered_json(4)},
            {"share_of_limit", status == "FAILED" ? 1.004 : 0.31},
            {"seconds", 0.045},
            {"status", status},
            {"reason", status == "SKIPPED" ? "there is no MPI" : ""},
            {"command", "scape check --workers " + std::to_string(workers)},
            {"failure", status == "FAILED" ? failure() : ordered_json()}};
}

ordered_json property(const std::string& status = "PASSED") {
    return {{"implementation", "sharded"},
            {"communicator", "in_process"},
            {"number", 3},
            {"property", "replicas agree"},
            {"says", "w, m and S are the same bits."},
            {"cases", 1000},
            {"classes", {{"several ranks", 830}}},
            {"seconds", 3.2},
            {"status", status},
            {"reason", status == "SKIPPED" ? "it has no replicas" : ""},
            {"command", "scape check --property 3"},
            {"failure", status == "FAILED" ? failure() : ordered_json()}};
}

ordered_json planted(bool caught = true) {
    return {{"number", 17},
            {"name", "ties to the higher index"},
            {"caught", caught},
            {"property", caught ? "exactly k bits" : ""},
            {"also", caught ? ordered_json{"conservation"} : ordered_json::array()},
            {"cases", 12},
            {"elements", 2},
            {"ranks", 1},
            {"steps", 1},
            {"evaluations", 40},
            {"seconds", 0.5},
            {"command", "scape planted --bug 17"},
            {"failure", caught ? failure() : ordered_json()}};
}

ordered_json result(const std::vector<ordered_json>& rows, const std::vector<ordered_json>& properties = {},
                    const std::vector<ordered_json>& bugs = {}) {
    ordered_json json{{"format", "scape-results"},
                      {"version", 2},
                      {"system", "scape"},
                      {"settings", {"workers", "density", "partition", "correction"}},
                      {"command", {"scape", "check", "--report", "a folder"}},
                      {"environment", {{"compiler", "GNU 12.2.0"}, {"system", "Linux"}}},
                      {"seed", 7},
                      {"rows", rows},
                      {"properties", properties},
                      {"planted", bugs}};
    ordered_json totals;
    for (const char* status : {"passed", "failed", "skipped", "mistrusted", "untested"}) {
        std::string upper = status;
        std::transform(upper.begin(), upper.end(), upper.begin(),
                       [](char c) { return static_cast<char>(c - 'a' + 'A'); });
        const auto is_it = [&](const ordered_json& one) { return one["status"] == upper; };
        totals[status] = std::count_if(rows.begin(), rows.end(), is_it) +
                         std::count_if(properties.begin(), properties.end(), is_it);
    }
    json["totals"] = totals;
    json["seconds"] = 125.0;
    return json;
}

std::size_t count(std::string_view text, std::string_view part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
        ++found;
    return found;
}

/// The part of the page between one section's begin and its end.
std::string section(const std::string& page, const std::string& id) {
    const std::size_t begin = page.find("<section id=\"" + id + "\"");
    return begin == std::string::npos ? std::string()
                                      : page.substr(begin, page.find("</section>", begin) - begin);
}

/// Every tag that is opened is closed, in the right order; attributes have no open quotes.
void expect_well_formed(const std::string& page) {
    const std::vector<std::string> without_end{"!DOCTYPE", "meta", "link", "br", "wbr", "col", "?xml"};
    std::vector<std::string> open;
    for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
        std::size_t end = at;
        for (bool quoted = false; end < page.size() && (quoted || page[end] != '>'); ++end)
            quoted ^= page[end] == '"';
        ASSERT_LT(end, page.size()) << page.substr(at, 80);
        const std::string tag = page.substr(at + 1, end - at - 1);
        const std::string name = tag.substr(0, tag.find_first_of(" \n"));
        ASSERT_FALSE(name.empty()) << page.substr(at, 80);
        if (name.front() == '/') {
            ASSERT_FALSE(open.empty()) << tag;
            ASSERT_EQ(open.back(), name.substr(1)) << page.substr(at > 200 ? at - 200 : 0, 250);
            open.pop_back();
        } else if (tag.back() != '/' &&
                   std::find(without_end.begin(), without_end.end(), name) == without_end.end())
            open.push_back(name);
        at = end;
    }
    EXPECT_TRUE(open.empty()) << open.back();
}

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
              "The one row passed, but 1 of 2 planted bugs was not caught");
    EXPECT_EQ(verdict({result({}, {}, {planted(), planted()})}), "All 2 planted bugs were caught");
    EXPECT_EQ(verdict({result({}, {}, {planted(false), planted(false)})}),
              "2 of 2 planted bugs were not caught");
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
    // The name space in the tab's icon is no address that anything is fetched from.
    EXPECT_EQ(count(page, "http"), 1U);
    EXPECT_EQ(count(page, "<h1>"), 1U);
    EXPECT_EQ(count(page, "<table"), count(page, "<caption"));
    EXPECT_EQ(count(page, "<th "), count(page, "<th scope=")) << "every header cell says of what";
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
          "0x3f<mark>c</mark>00000", "12,582,912 ULP apart", "<pre>scape check --workers 3</pre>",
          "row.safetensors", "<pre>tensors=wq:2+norm:1:dense,workers=2</pre>"})
        EXPECT_TRUE(contains(failures, part)) << part << "\n" << failures;
    EXPECT_EQ(count(failures, "<tr class=\"bad\">"), 1U);
    EXPECT_TRUE(section(html_page({result({row()})}), "failures").empty());
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
    // What three digits cannot tell apart is told by its distance.
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
    // What is shared stands once, above the ranks; the others in their order.
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
                             "<b>1/1</b> <span aria-hidden=\"true\">✓</span> planted bugs caught"})
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
                             "1,000", "3.2 s", "data-label=\"no.\" class=\"number\">3<"})
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
    EXPECT_TRUE(contains(page, "<pre>scape check --report &#39;a folder&#39;</pre>"));
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
    // As version 1 had them, without lanes: read_results() refuses it, and it is drawn as nothing.
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

TEST(JUnit, CountsWhatDidNotPassAsFailures) {
    const std::string xml =
        junit_xml({result({row(), row("FAILED", 3), row("SKIPPED"), row("MISTRUSTED"), row("UNTESTED")},
                          {property(), property("SKIPPED")}, {planted(), planted(false)})});
    EXPECT_TRUE(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"scape\" "
                                "tests=\"9\" failures=\"4\" errors=\"0\" skipped=\"2\" "));
    EXPECT_TRUE(contains(xml,
                         "<testsuite name=\"matrix\" tests=\"5\" failures=\"3\" errors=\"0\" skipped=\"1\" "
                         "time=\"0.225000\">"));
    EXPECT_TRUE(contains(
        xml, "<testsuite name=\"properties\" tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"1\""));
    EXPECT_TRUE(
        contains(xml, "<testsuite name=\"planted\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""));
    EXPECT_EQ(count(xml, "<testcase "), 9U);
    EXPECT_EQ(count(xml, "<failure "), 4U);
    EXPECT_EQ(count(xml, "<skipped "), 2U);
    EXPECT_EQ(count(xml, "<property name=\"compiler\" value=\"GNU 12.2.0\"/>"), 3U) << "once in each suite";
    expect_well_formed(xml);
}

TEST(JUnit, AFailureHoldsTheDivergenceAndTheCommand) {
    ordered_json lines = row("FAILED", 3);
    lines["failure"]["message"] = "two\nlines";
    const std::string xml = junit_xml({result({lines}, {property("SKIPPED")}, {planted(false)})});
    EXPECT_TRUE(
        contains(xml, "<testcase classname=\"matrix.sharded.in_process.REL\" name=\"workers=3 density=0.1 "
                      "partition=by_shard correction=adam\" time=\"0.045000\">"));
    EXPECT_TRUE(contains(xml, "<failure message=\"FAILED: two&#10;lines\""));
    EXPECT_TRUE(contains(xml,
                         "first divergence: step 2, phase residual, residual of rank 1, tensor wq, index 1 "
                         "(coordinate 1)\nexpected: 0.5 (0x3f000000)\n  actual: 1.5 (0x3fc00000)\n"));
    EXPECT_TRUE(contains(xml, "repeat with: scape check --workers 3\n"));
    EXPECT_TRUE(contains(xml, "<skipped message=\"it has no replicas\"/>"));
    EXPECT_TRUE(contains(xml, "<failure message=\"NOT CAUGHT: No property caught this bug"));
}

TEST(JUnit, SeveralFilesAreOne) {
    const std::string xml = junit_xml({result({row()}), result({row("FAILED")})});
    EXPECT_TRUE(contains(xml, "tests=\"2\" failures=\"1\""));
    EXPECT_EQ(count(xml, "<testsuite "), 3U);
}

class ReadResults : public testing::Test {
  protected:
    [[nodiscard]] std::filesystem::path written(const std::string& text) {
        const std::filesystem::path path = folder_ / ("results" + std::to_string(++files_) + ".json");
        store(path, text);
        return path;
    }

    /// The error's line without the path; it must say what to do, too.
    [[nodiscard]] std::string refusal(const std::string& text) {
        const std::filesystem::path path = written(text);
        const std::string error = error_of([&] { (void)read_results({path}); });
        EXPECT_TRUE(error.starts_with(path.string() + ": ")) << error;
        EXPECT_TRUE(contains(error, "; ")) << error;
        return error.substr(std::min(error.size(), path.string().size() + 2));
    }

    [[nodiscard]] std::string refusal(const ordered_json& json) { return refusal(json.dump()); }

    TemporaryFolder folder_;

  private:
    int files_ = 0;
};

ordered_json full() {
    return result({row(), row("FAILED", 3), row("SKIPPED")}, {property(), property("FAILED")},
                  {planted(), planted(false)});
}

TEST_F(ReadResults, ReadsWhatIsWellFormedInItsOrder) {
    const auto a = written(full().dump());
    const auto b = written(result({}).dump(2));
    const auto results = read_results({b, a});
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(results[0], result({}));
    EXPECT_EQ(results[1], full());
    EXPECT_TRUE(read_results({}).empty());
}

TEST_F(ReadResults, RefusesWhatIsNoResultFile) {
    EXPECT_TRUE(refusal(std::string()).starts_with("it is not JSON; make the file again"));
    EXPECT_TRUE(refusal(std::string("{\"format\": ")).starts_with("it is not JSON"));
    EXPECT_TRUE(refusal(std::string("{\"format\": \"\xff\"}")).starts_with("it is not JSON"));
    EXPECT_TRUE(refusal(std::string("[]")).starts_with("it is not a JSON object"));
    EXPECT_TRUE(refusal(std::string("{}")).starts_with("it has no 'format'"));
    EXPECT_TRUE(
        refusal(std::string("{\"format\": \"scape-trace\"}")).starts_with("its format is \"scape-trace\""));
    EXPECT_TRUE(refusal(std::string("{\"format\": \"scape-results\"}")).starts_with("it has no 'version'"));
    for (const int version : {1, 3}) {
        ordered_json other = full();
        other["version"] = version;
        EXPECT_TRUE(refusal(other).starts_with("its version is " + std::to_string(version) +
                                               "; this tool reads version 2; use the tool that wrote"));
    }
    // Deep enough to end a program that descends by recursion.
    const std::string deep = std::string(200000, '[') + std::string(200000, ']');
    EXPECT_TRUE(refusal(deep).starts_with("it is not a JSON object"));
    EXPECT_TRUE(refusal("{\"format\": " + deep + "}").starts_with("its format is a list"));
    for (const std::filesystem::path& path : {folder_ / "nothing.json", folder_.path()})
        EXPECT_EQ(error_of([&] { (void)read_results({path}); }),
                  path.string() +
                      ": it cannot be read; give a result file, as --json of scape check writes it");
}

/// Calls `visit` with the place of every value in it, the outer ones first.
template <class Visit>
void each_place(const ordered_json& json, const ordered_json::json_pointer& place, Visit visit) {
    if (!place.empty())
        visit(place);
    if (json.is_object())
        for (const auto& [key, value] : json.items())
            each_place(value, place / key, visit);
    if (json.is_array())
        for (std::size_t i = 0; i < json.size(); ++i)
            each_place(json[i], place / i, visit);
}

TEST_F(ReadResults, RefusesEveryKeyThatIsMissing) {
    const ordered_json good = full();
    std::size_t tried = 0;
    each_place(good, ordered_json::json_pointer(), [&](const ordered_json::json_pointer& place) {
        const ordered_json& parent = good.at(place.parent_pointer());
        const std::string holder = place.parent_pointer().empty() ? "" : place.parent_pointer().back();
        // The keys of these two are free.
        if (!parent.is_object() || holder == "environment" || holder == "classes")
            return;
        ordered_json bad = good;
        bad.at(place.parent_pointer()).erase(place.back());
        EXPECT_TRUE(contains(refusal(bad), "has no '" + place.back() + "'")) << place.to_string();
        ++tried;
    });
    EXPECT_GT(tried, 150U);
}

TEST_F(ReadResults, TakesTheSettingsThatAFileNames) {
    ordered_json other = full();
    other["settings"] = {"workers", "local_steps"};
    for (ordered_json& row : other["rows"]) {
        for (const char* gone : {"density", "partition", "correction"})
            row.erase(gone);
        row["local_steps"] = 3;
    }
    EXPECT_EQ(read_results({written(other.dump())}).size(), 1U);
    const std::string page = html_page({other});
    EXPECT_TRUE(contains(page, "<th scope=\"col\">local_steps</th>")) << page;
    EXPECT_FALSE(contains(page, "density"));
    EXPECT_TRUE(contains(junit_xml({other}), "local_steps=3"));
    other["rows"][0].erase("local_steps");
    EXPECT_TRUE(contains(refusal(other), "has no 'local_steps'"));
    other["rows"][0]["local_steps"] = ordered_json::array();
    EXPECT_TRUE(contains(refusal(other), "'local_steps' is a list"));
}

TEST_F(ReadResults, RefusesEveryValueOfAnotherType) {
    const ordered_json good = full();
    std::size_t tried = 0;
    each_place(good, ordered_json::json_pointer(), [&](const ordered_json::json_pointer& place) {
        const ordered_json& value = good.at(place);
        ordered_json bad = good;
        const bool may_be_text = place.back() == "density"; // a setting is a number or a text
        bad.at(place) = (value.is_boolean() || value.is_number()) && !may_be_text ? ordered_json("a text")
                                                                                  : ordered_json(true);
        const std::string error = refusal(bad);
        EXPECT_FALSE(error.empty()) << place.to_string();
        ++tried;
        // And none of them ends the pages.
        expect_well_formed(html_page({bad}));
        expect_well_formed(junit_xml({bad}));
    });
    EXPECT_GT(tried, 250U);
}

TEST_F(ReadResults, SaysWhereAndWhatIsWrong) {
    ordered_json bad = full();
    bad["rows"][1]["status"] = "passed";
    EXPECT_TRUE(refusal(bad).starts_with("rows[1]: 'status' is \"passed\", not one of PASSED, FAILED"));
    bad = full();
    ordered_json* lanes = &bad["rows"][1]["failure"]["drawing"]["lanes"];
    (*lanes)[0]["values"][1][2] = "x";
    EXPECT_TRUE(refusal(bad).starts_with(
        "rows[1].failure.drawing.lanes[0].values[1] holds \"x\", which is no bit"));
    bad = full();
    lanes = &bad["rows"][1]["failure"]["drawing"]["lanes"];
    (*lanes)[3]["expected"][1][0] = "-1";
    EXPECT_TRUE(contains(refusal(bad), "lanes[3].expected[1] holds \"-1\", which counts nothing"));
    bad = full();
    lanes = &bad["rows"][1]["failure"]["drawing"]["lanes"];
    (*lanes)[2]["values"][0].push_back("0");
    EXPECT_TRUE(contains(refusal(bad), "lanes[2].values[0] holds 4 values, not 3"));
    bad = full();
    lanes = &bad["rows"][1]["failure"]["drawing"]["lanes"];
    (*lanes)[2]["kind"] = "colours";
    EXPECT_TRUE(contains(refusal(bad), "lanes[2]: 'kind' is \"colours\", not bits, floats or counts"));
    bad = full();
    lanes = &bad["rows"][1]["failure"]["drawing"]["lanes"];
    (*lanes)[4]["shared"] = false;
    EXPECT_TRUE(contains(refusal(bad), "lanes[4].values holds 1 rows, not 2"));
    bad = full();
    bad["rows"][1]["failure"]["drawing"]["tensors"][1]["end"] = 4;
    EXPECT_TRUE(
        contains(refusal(bad), "tensors[1] goes from 2 to 4, which is no range within 3 coordinates"));
    bad = full();
    bad["rows"][1]["failure"]["drawing"]["ranks"] = 3;
    EXPECT_TRUE(contains(refusal(bad), "lanes[0].values holds 2 rows, not 3"));
    bad = full();
    bad["rows"][0]["seconds"] = -1;
    EXPECT_TRUE(contains(refusal(bad), "'seconds' is -1, not a number of at least 0"));
    bad = full();
    bad["rows"][0]["share_of_limit"] = std::numeric_limits<double>::infinity(); // written as null
    EXPECT_TRUE(
        contains(refusal(bad), "'share_of_limit' is null, not a number of at least 0 or the text inf"));
    bad["rows"][0]["share_of_limit"] = "inf";
    EXPECT_EQ(read_results({written(bad.dump())}).size(), 1U);
}

TEST_F(ReadResults, RefusesTotalsThatTheRowsDoNotHave) {
    ordered_json bad = full();
    bad["totals"]["failed"] = 1;
    EXPECT_TRUE(refusal(bad).starts_with("totals: 'failed' is 1, but rows and properties hold 2"));
    bad = full();
    bad["rows"].erase(bad["rows"].begin());
    EXPECT_TRUE(refusal(bad).starts_with("totals: 'passed' is 2, but rows and properties hold 1"));
}

} // namespace
} // namespace scape::report
