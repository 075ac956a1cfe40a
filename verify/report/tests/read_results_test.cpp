// Tests that malformed result files are refused with the place and the remedy.
#include <truestep/report/page_data.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <truestep/report/junit.hpp>
#include <truestep/report/page.hpp>

#include "page_support.hpp"
#include "support.hpp"

namespace truestep::report {
namespace {

using nlohmann::ordered_json;
using verify::scape::support::contains;
using verify::scape::support::error_of;
using verify::scape::support::store;
using verify::scape::support::TemporaryFolder;

class ReadResults : public testing::Test {
  protected:
    [[nodiscard]] std::filesystem::path written(const std::string& text) {
        const std::filesystem::path path = folder_ / ("results" + std::to_string(++files_) + ".json");
        store(path, text);
        return path;
    }

    /// The error's line without the path; it must also say what to do.
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
    // Deep enough to crash a program that descends by recursion.
    const std::string deep = std::string(200000, '[') + std::string(200000, ']');
    EXPECT_TRUE(refusal(deep).starts_with("it is not a JSON object"));
    EXPECT_TRUE(refusal("{\"format\": " + deep + "}").starts_with("its format is a list"));
    for (const std::filesystem::path& path : {folder_ / "nothing.json", folder_.path()})
        EXPECT_EQ(error_of([&] { (void)read_results({path}); }),
                  path.string() +
                      ": it cannot be read; give a result file, as --json of truestep check writes it");
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
        // None of them crashes the pages.
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
        "rows[1].failure.drawing.lanes[0].values[1] holds \"x\", which is not a bit"));
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
        contains(refusal(bad), "tensors[1] goes from 2 to 4, which is not a range within 3 coordinates"));
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
} // namespace truestep::report
