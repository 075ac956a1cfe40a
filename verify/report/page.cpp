// Assembles the HTML page of result files: headline, counts, failures and tables.
#include <truestep/report/page.hpp>

#include "page_rows.hpp"

namespace truestep::report {

namespace page {

namespace {

std::string counts(const GroupedResults& all) {
    std::string html;
    if (all.rows() > 0)
        for (const auto& [status, word] : {std::pair{Status::passed, "passed"},
                                           {Status::failed, "failed"},
                                           {Status::skipped, "skipped"},
                                           {Status::mistrusted, "mistrusted"},
                                           {Status::untested, "untested"}})
            html += count_chip(status, count_text(static_cast<double>(all.count(status))), word);
    if (!all.planted.empty())
        html += count_chip(all.caught() == all.planted.size() ? Status::passed : Status::failed,
                           count_text(static_cast<double>(all.caught())) + "/" +
                               count_text(static_cast<double>(all.planted.size())),
                           "known bugs caught");
    return html;
}

std::string header(const GroupedResults& all) {
    std::string links;
    const auto link = [&](bool there, const std::string& id, const std::string& word) {
        if (there)
            links += element("li", element("a", word, {{"href", "#" + id}}));
    };
    link(!all.failures.empty(), "failures", "Failures");
    link(!all.matrix.empty(), "matrix", "Matrix");
    link(!all.properties.empty(), "properties", "Properties");
    link(!all.planted.empty(), "planted", "Known bugs");
    link(all.rows() + all.planted.size() > 0, "slowest", "Slowest");
    link(!all.matrix.empty(), "rows", "All rows");
    return banner(
        overall(all), "the gate’s report", verdict(all), counts(all),
        links.empty() ? "" : element("nav", element("ul", links), {{"aria-label", "Parts of this page"}}));
}

std::string failures(const GroupedResults& all) {
    std::string html;
    for (const Cause& cause : causes(all))
        html += element(
            "article.failure." + class_of(cause.shown->status),
            element("h3", badge(*cause.shown) + " " + element("span", escaped(title(*cause.shown)))) +
                failure_body(*cause.shown) + other_failures(cause),
            {{"id", cause.shown->anchor()}});
    return html;
}

} // namespace

} // namespace page

std::string html_page(const std::vector<nlohmann::ordered_json>& results) {
    const page::GroupedResults all = page::gather(results);
    std::string html = page::made(results);
    if (!all.failures.empty())
        html += page::section("failures", "What did not pass", page::failures(all));
    if (!all.matrix.empty())
        html += page::section("matrix", "The matrix", page::heat_maps(all));
    if (!all.properties.empty())
        html += page::section("properties", "What must always hold", page::property_tables(all));
    if (!all.planted.empty())
        html += page::section("planted", "Known bugs", page::planted_table(all));
    if (all.rows() + all.planted.size() > 0)
        html += page::section("slowest", "Slowest", page::slowest_table(all));
    if (!all.matrix.empty())
        html += page::section("rows", "All rows of the matrix", page::row_tables(all));
    return page::framed(verdict(results), page::overall(all), page::header(all), html);
}

std::string verdict(const std::vector<nlohmann::ordered_json>& results) {
    return page::verdict(page::gather(results));
}

} // namespace truestep::report
