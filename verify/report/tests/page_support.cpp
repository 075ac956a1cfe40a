// Builds the sample results of the page's tests, and checks that a page is well-formed.
#include "page_support.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace truestep::report {

using nlohmann::ordered_json;

ordered_json lane(const std::string& name, const std::string& title, const std::string& kind,
                  const ordered_json& values, const ordered_json& expected) {
    return {{"name", name},     {"title", title},      {"kind", kind}, {"shared", values.size() == 1},
            {"values", values}, {"expected", expected}};
}

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

ordered_json row(const std::string& status, int workers) {
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
            {"command", "truestep check --workers " + std::to_string(workers)},
            {"failure", status == "FAILED" ? failure() : ordered_json()}};
}

ordered_json property(const std::string& status) {
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
            {"command", "truestep check --property 3"},
            {"failure", status == "FAILED" ? failure() : ordered_json()}};
}

ordered_json planted(bool caught) {
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
            {"command", "truestep planted --bug 17"},
            {"failure", caught ? failure() : ordered_json()}};
}

ordered_json result(const std::vector<ordered_json>& rows, const std::vector<ordered_json>& properties,
                    const std::vector<ordered_json>& bugs) {
    ordered_json json{{"format", "scape-results"},
                      {"version", 2},
                      {"system", "scape"},
                      {"settings", {"workers", "density", "partition", "correction"}},
                      {"command", {"truestep", "check", "--report", "a folder"}},
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

std::string section(const std::string& page, const std::string& id) {
    const std::size_t begin = page.find("<section id=\"" + id + "\"");
    return begin == std::string::npos ? std::string()
                                      : page.substr(begin, page.find("</section>", begin) - begin);
}

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

} // namespace truestep::report
