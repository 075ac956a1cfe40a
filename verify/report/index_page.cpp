// The index of many runs of the gate: a row for each result file, with a link to its own page.
#include "page_rows.hpp"

#include <algorithm>
#include <set>
#include <span>

#include <truestep/report/page.hpp>

namespace truestep::report {

namespace {

using namespace page;
namespace fs = std::filesystem;

/// The page beside a result file, or the file itself, as seen from the index.
std::string link_to(const fs::path& file, const fs::path& folder) {
    const fs::path page = file.parent_path() / "index.html";
    return fs::proximate(fs::exists(page) ? page : file, folder).generic_string();
}

std::string implementations(const ordered_json& result) {
    std::set<std::string> names;
    for (const char* list_of : {"rows", "properties"})
        for (const ordered_json& row : list(result, list_of))
            names.insert(text(row, "implementation"));
    std::string joined;
    for (const std::string& name : names)
        joined += (joined.empty() ? "" : ", ") + name;
    return joined;
}

double cases_of(const GroupedResults& all) {
    double cases = 0.0;
    for (const auto* entries : {&all.matrix, &all.properties, &all.planted})
        for (const Entry& entry : *entries)
            cases += number(*entry.json, "cases");
    return cases;
}

} // namespace

std::string index_page(const std::vector<fs::path>& files, const std::vector<ordered_json>& results,
                       const fs::path& folder) {
    HtmlTable table("stack", "Runs",
                    "status:status, run:head, verdict:words, system:words, implementations:words, "
                    "cases:number, time:number");
    std::size_t passed = 0;
    Status worst = Status::passed;
    for (std::size_t i = 0; i < results.size(); ++i) {
        const GroupedResults all = gather(std::span(&results[i], 1));
        const Status status = overall(all);
        passed += status == Status::passed ? 1 : 0;
        worst = status == Status::passed ? worst : Status::failed;
        table.row({badge(status, class_of(status)),
                   element("a", escaped(fs::proximate(files[i], folder).generic_string()),
                           {{"href", link_to(files[i], folder)}}),
                   escaped(page::verdict(all)), escaped(results[i], "system"),
                   escaped(implementations(results[i])), count_text(cases_of(all)),
                   escaped(duration(all.seconds))});
    }
    const std::string headline =
        passed == results.size()
            ? results.size() == 1 ? "The run passed" : "All " + count_of(results.size(), "run") + " passed"
            : count_text(static_cast<double>(results.size() - passed)) + " of " +
                  count_of(results.size(), "run") + " did not pass";
    return framed(
        headline, worst,
        banner(worst, "runs of the gate", headline,
               count_chip(Status::passed, count_text(static_cast<double>(passed)), "passed") +
                   count_chip(Status::failed, count_text(static_cast<double>(results.size() - passed)),
                              "not passed")),
        section("runs", "Runs", table.html()) + made(results));
}

} // namespace truestep::report
