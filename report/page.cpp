#include <scape/report/page.hpp>

#include "page_parts.hpp"

namespace scape::report {

namespace page {

namespace {

std::string section(const std::string& id, const std::string& heading, const std::string& content) {
    return "<section id=\"" + id + "\" aria-labelledby=\"" + id + "-heading\"><h2 id=\"" + id +
           "-heading\">" + heading + "</h2>" + content + "</section>\n";
}

/// For the tab: a tick or a cross. It is part of the page, so that no browser asks for another file.
std::string icon(Status status) {
    const bool good = status == Status::passed;
    std::string text("data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
                     "%3Ccircle cx='8' cy='8' r='8' fill='%23");
    text += good ? "1a7546" : "b3261e";
    text += "'/%3E%3Cpath d='";
    text += good ? "M4 8.5l3 3 5-6" : "M5 5l6 6M11 5l-6 6";
    text += "' fill='none' stroke='white' stroke-width='2'/%3E%3C/svg%3E";
    return text;
}

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
    return "<header class=\"" + class_of(status) + "\"><p class=\"what\">scape: the gate’s report</p>" +
           "<div class=\"verdict\"><span class=\"sign\" aria-hidden=\"true\">" + symbol(status) +
           "</span><h1>" + escaped(verdict(all)) + "</h1></div>" + counts(all) +
           (links.empty() ? "" : "<nav aria-label=\"Parts of this page\"><ul>" + links + "</ul></nav>") +
           "</header>\n";
}

/// A word as a shell would need it.
std::string quoted(const std::string& word) {
    constexpr std::string_view harmless =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
    if (!word.empty() && word.find_first_not_of(harmless) == std::string::npos)
        return word;
    std::string result = "'";
    for (const char one : word)
        result += one == '\'' ? std::string("'\\''") : std::string(1, one);
    return result + "'";
}

std::string made(const std::vector<ordered_json>& results) {
    std::string html = "<details id=\"made\"><summary>How this was made</summary>";
    for (const ordered_json& result : results) {
        std::string command;
        for (const ordered_json& word : list(result, "command"))
            if (word.is_string())
                command += (command.empty() ? "" : " ") + quoted(word.get<std::string>());
        html += "<div class=\"run\">";
        if (!command.empty())
            html += "<pre>" + escaped(command) + "</pre>";
        html += "<dl class=\"environment\">";
        if (!text(result, "seed").empty())
            html += "<div><dt>seed</dt><dd>" + escaped(result, "seed") + "</dd></div>";
        if (at(result, "seconds").is_number())
            html += "<div><dt>took</dt><dd>" + escaped(duration(number(result, "seconds"))) + "</dd></div>";
        if (const ordered_json& environment = at(result, "environment"); environment.is_object())
            for (const auto& [key, value] : environment.items())
                html += "<div><dt>" + escaped(key) + "</dt><dd>" + escaped(plain(value)) + "</dd></div>";
        html += "</dl></div>";
    }
    return html + "</details>\n";
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
    std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                       "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
                       page::escaped(verdict(results)) + " – scape</title>\n<link rel=\"icon\" href=\"" +
                       page::icon(page::overall(all)) + "\">\n<style>\n" + page::style() +
                       "</style>\n</head>\n<body>\n<div class=\"page\">\n" + page::header(all) +
                       "<main>\n" + page::made(results);
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
    return html + "</main>\n</div>\n</body>\n</html>\n";
}

std::string verdict(const std::vector<nlohmann::ordered_json>& results) {
    return page::verdict(page::gather(results));
}

} // namespace scape::report
