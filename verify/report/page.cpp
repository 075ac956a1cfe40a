#include <truestep/report/page.hpp>

#include "page_parts.hpp"

namespace truestep::report {

namespace page {

namespace {

std::string count_chip(const Gathered& all, Status status, const std::string& word) {
    const std::size_t count = all.count(status);
    return "<li class=\"" + (count > 0 ? class_of(status) : "nothing") + "\"><b>" +
           count_text(static_cast<double>(count)) + "</b> <span aria-hidden=\"true\">" + symbol(status) +
           "</span> " + word + "</li>";
}

std::string counts(const Gathered& all) {
    std::string html = "<ul class=\"counts\">";
    if (all.rows() > 0)
        html += count_chip(all, Status::passed, "passed") + count_chip(all, Status::failed, "failed") +
                count_chip(all, Status::skipped, "skipped") +
                count_chip(all, Status::mistrusted, "mistrusted") +
                count_chip(all, Status::untested, "untested");
    if (!all.planted.empty()) {
        const bool every = all.caught() == all.planted.size();
        html += "<li class=\"" + class_of(every ? Status::passed : Status::failed) + "\"><b>" +
                count_text(static_cast<double>(all.caught())) + "/" +
                count_text(static_cast<double>(all.planted.size())) + "</b> <span aria-hidden=\"true\">" +
                symbol(every ? Status::passed : Status::failed) + "</span> planted bugs caught</li>";
    }
    return html + "</ul>";
}

std::string header(const Gathered& all) {
    const Status status = overall(all);
    std::string links;
    const auto link = [&](bool there, const std::string& id, const std::string& word) {
        if (there)
            links += "<li><a href=\"#" + id + "\">" + word + "</a></li>";
    };
    link(!all.failures.empty(), "failures", "Failures");
    link(!all.matrix.empty(), "matrix", "Matrix");
    link(!all.properties.empty(), "properties", "Properties");
    link(!all.planted.empty(), "planted", "Planted bugs");
    link(all.rows() + all.planted.size() > 0, "slowest", "Slowest");
    link(!all.matrix.empty(), "rows", "All rows");
    return "<header class=\"" + class_of(status) + "\"><p class=\"what\">truestep: the gate’s report</p>" +
           "<div class=\"verdict\"><span class=\"sign\" aria-hidden=\"true\">" + symbol(status) +
           "</span><h1>" + escaped(verdict(all)) + "</h1></div>" + counts(all) +
           (links.empty() ? "" : "<nav aria-label=\"Parts of this page\"><ul>" + links + "</ul></nav>") +
           "</header>\n";
}

std::string failures(const Gathered& all) {
    std::string html;
    for (const Cause& cause : causes(all))
        html += "<article class=\"failure " + class_of(cause.shown->status) + "\" id=\"" +
                cause.shown->anchor() + "\"><h3>" + badge(*cause.shown) + " <span>" +
                escaped(title(*cause.shown)) + "</span></h3>" + failure_body(*cause.shown) +
                other_failures(cause) + "</article>";
    return html;
}

} // namespace

} // namespace page

std::string html_page(const std::vector<nlohmann::ordered_json>& results) {
    const page::Gathered all = page::gather(results);
    std::string html = page::header(all) + "<main>\n" + page::made(results);
    if (!all.failures.empty())
        html += page::section("failures", "What did not pass", page::failures(all));
    if (!all.matrix.empty())
        html += page::section("matrix", "The matrix", page::heat_maps(all));
    if (!all.properties.empty())
        html += page::section("properties", "What must always hold", page::property_tables(all));
    if (!all.planted.empty())
        html += page::section("planted", "Planted bugs", page::planted_table(all));
    if (all.rows() + all.planted.size() > 0)
        html += page::section("slowest", "Slowest", page::slowest_table(all));
    if (!all.matrix.empty())
        html += page::section("rows", "All rows of the matrix", page::row_tables(all));
    return page::framed(verdict(results), page::overall(all), html + "</main>\n");
}

std::string verdict(const std::vector<nlohmann::ordered_json>& results) {
    return page::verdict(page::gather(results));
}

} // namespace truestep::report
