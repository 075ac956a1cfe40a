#include <truestep/report/runs.hpp>

#include <algorithm>

#include "runs_parts.hpp"

namespace truestep::report {

namespace page {

namespace {

/// Runs that are told with all their drawings: what fails comes first. A page of a thousand would not open.
constexpr std::size_t most_drawn = 40;

bool unreadable(const ordered_json& run) {
    return !text(run, "error").empty();
}

Status status_of_run(const ordered_json& run) {
    return unreadable(run) ? Status::failed : status_of(text(run, "status"));
}

std::string word_of_run(const ordered_json& run) {
    return unreadable(run) ? "NOT READ" : text(run, "status");
}

/// In the order given, but for those that did not pass, which come first.
std::vector<const ordered_json*> in_order(const ordered_json& runs) {
    std::vector<const ordered_json*> all;
    for (const ordered_json& run : list(runs, "traces"))
        all.push_back(&run);
    std::stable_partition(all.begin(), all.end(),
                          [](const ordered_json* run) { return status_of_run(*run) != Status::passed; });
    return all;
}

std::size_t passed_of(const std::vector<const ordered_json*>& all) {
    return static_cast<std::size_t>(std::ranges::count_if(
        all, [](const ordered_json* run) { return status_of_run(*run) == Status::passed; }));
}

std::string headline(const std::vector<const ordered_json*>& all) {
    const std::size_t passed = passed_of(all);
    if (all.empty())
        return "Nothing was checked";
    if (passed == all.size())
        return all.size() == 1 ? "The run is right" : "All " + count_of(all.size(), "run") + " are right";
    if (all.size() == 1)
        return unreadable(*all.front())                        ? "The run could not be checked"
               : status_of_run(*all.front()) == Status::failed ? "The run is wrong"
                                                               : "The run proves nothing";
    return count_text(static_cast<double>(all.size() - passed)) + " of " + count_of(all.size(), "run") +
           " did not pass";
}

std::string anchor_of_run(std::size_t i) {
    return "run-" + std::to_string(i + 1);
}

std::string table_cell(const std::string& label, const std::string& content, const std::string& kind) {
    return "<td role=\"cell\" data-label=\"" + label + "\" class=\"" + kind + "\">" + content + "</td>";
}

/// Begins a table whose rows are cards on a phone, as those of the gate's page are.
std::string table_of(const std::string& caption, const std::vector<std::string>& columns,
                     std::size_t numbers_from) {
    std::string html = "<table class=\"stack\" role=\"table\"><caption class=\"sr\">" + caption +
                       "</caption><thead role=\"rowgroup\"><tr role=\"row\">";
    for (std::size_t i = 0; i < columns.size(); ++i)
        html += std::string("<th scope=\"col\" role=\"columnheader\"") +
                (i >= numbers_from ? " class=\"number\">" : ">") + columns[i] + "</th>";
    return html + "</tr></thead><tbody role=\"rowgroup\">";
}

std::string share_text(const ordered_json& row) {
    return number(row, "compared") == 0.0    ? "–"
           : number(row, "mismatched") > 0.0 ? "&gt;100 %"
                                             : escaped(percentage(number(row, "share_of_limit")));
}

std::string ulps_of(const ordered_json& row) {
    const ordered_json& ulps = at(row, "max_ulp");
    return number(row, "compared") == 0.0 ? "–"
           : ulps.is_string()             ? "not comparable"
                                          : count_text(ulps.is_number() ? ulps.get<double>() : 0.0);
}

std::string row_status(const ordered_json& row) {
    const Status status = status_of(text(row, "status"));
    if (status != Status::untested)
        return badge(status, text(row, "status"));
    return "<span class=\"quiet\">" +
           std::string(number(row, "unbounded") > 0.0 ? "no finite bound" : "not recorded") + "</span>";
}

std::string phases(const ordered_json& run) {
    std::string html = table_of("The verdict by phase",
                                {"status", "phase", "result", "values", "wrong", "max ULP", "of limit"}, 3);
    for (const ordered_json& row : list(run, "rows"))
        html += "<tr role=\"row\">" + table_cell("status", row_status(row), "status") +
                "<th scope=\"row\" role=\"rowheader\">" + escaped(row, "phase") + "</th>" +
                table_cell("result", escaped(row, "result"), "word") +
                table_cell("values", count_text(number(row, "compared")), "number") +
                table_cell("wrong", count_text(number(row, "mismatched")), "number") +
                table_cell("max ULP", ulps_of(row), "number") +
                table_cell("of limit", share_text(row), "number") + "</tr>";
    html += "</tbody></table>";
    const bool mistrusted = text(run, "status") == name(Status::mistrusted) ||
                            std::ranges::any_of(list(run, "rows"), [](const ordered_json& row) {
                                return status_of(text(row, "status")) == Status::mistrusted;
                            });
    // What the level means stands above.
    const std::string words = explained_words(false, mistrusted);
    return words.empty() ? html : html + "<p class=\"quiet\">" + words + "</p>";
}

std::string what_parts(const ordered_json& run) {
    const ordered_json& failure = at(run, "failure");
    if (!failure.is_object())
        return {};
    std::string html = "<p class=\"message\">" + escaped(failure, "message") + "</p>";
    if (!text(failure, "note").empty())
        html += "<p class=\"message\">" + escaped(failure, "note") + "</p>";
    html += listed("What may be wrong", list(run, "fits"));
    return html + divergence(at(failure, "first"));
}

std::string told(const ordered_json& run, bool drawn) {
    if (unreadable(run))
        return "<p class=\"message\">" + escaped(run, "error") + "</p>";
    std::string html = "<dl class=\"environment\">";
    for (const auto& [word, key] :
         {std::pair{"run", "problem"}, {"source", "source"}, {"level", "level"}, {"begins at", "from"}})
        html += "<div><dt>" +
                (std::string_view(key) == "from" ? "each " + escaped(word_for(run, "step")) + " " : "") +
                word + "</dt><dd>" + escaped(run, key) +
                (std::string_view(key) == "level" ? ": " + escaped(run, "explains_level")
                 : std::string_view(key) == "from"
                     ? (text(run, key) == "recorded" ? ": the recorded state before it"
                                                     : ": the reference runs free")
                     : "") +
                "</dd></div>";
    html +=
        "</dl>" + what_parts(run) + "<h4>By phase</h4>" + phases(run) + listed("Notes", list(run, "notes"));
    if (drawn)
        html += difference_maps(run) + curves(run);
    else
        html += "<p class=\"quiet\">Its drawings are left out: this page has those of the first " +
                std::to_string(most_drawn) + " runs. Give this one alone to see them.</p>";
    if (!text(run, "command").empty())
        html += "<h4>Check it again</h4><pre>" + escaped(run, "command") + "</pre>";
    return html;
}

std::string one_run(const ordered_json& run, std::size_t i, bool alone) {
    const Status status = status_of_run(run);
    const std::string name = badge(status, word_of_run(run)) + " <span>" + escaped(run, "path") + "</span>";
    const std::string body = told(run, i < most_drawn);
    const std::string begin =
        "<article class=\"failure " + class_of(status) + "\" id=\"" + anchor_of_run(i) + "\"><h3>";
    // Of many, what passed need not be read.
    if (alone || status != Status::passed)
        return begin + name + "</h3>" + body + "</article>";
    return begin + name + "</h3><details><summary>What it did</summary>" + body + "</details></article>";
}

std::string overview(const std::vector<const ordered_json*>& all) {
    std::string html = table_of("All runs", {"status", "run", "values", "wrong", "first divergence"}, 2);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const ordered_json& run = *all[i];
        double compared = 0.0;
        double wrong = 0.0;
        for (const ordered_json& row : list(run, "rows")) {
            compared += number(row, "compared");
            wrong += number(row, "mismatched");
        }
        const ordered_json& first = at(at(run, "failure"), "first");
        html += "<tr role=\"row\">" +
                table_cell("status", badge(status_of_run(run), word_of_run(run)), "status") +
                "<th scope=\"row\" role=\"rowheader\"><a href=\"#" + anchor_of_run(i) + "\">" +
                escaped(run, "path") + "</a></th>" + table_cell("values", count_text(compared), "number") +
                table_cell("wrong", count_text(wrong), "number") +
                table_cell("first divergence", first.is_object() ? escaped(place(first)) : "–", "words") +
                "</tr>";
    }
    return html + "</tbody></table>";
}

std::string head_of_runs(const std::vector<const ordered_json*>& all, Status status) {
    const std::size_t passed = passed_of(all);
    const auto chip = [](Status of, std::size_t count, const std::string& word) {
        return "<li class=\"" + (count > 0 ? class_of(of) : "nothing") + "\"><b>" +
               count_text(static_cast<double>(count)) + "</b> <span aria-hidden=\"true\">" + symbol(of) +
               "</span> " + word + "</li>";
    };
    return "<header class=\"" + class_of(status) +
           "\"><p class=\"what\">truestep: recorded runs beside the reference</p><div "
           "class=\"verdict\"><span "
           "class=\"sign\" aria-hidden=\"true\">" +
           symbol(status) + "</span><h1>" + headline(all) + "</h1></div><ul class=\"counts\">" +
           chip(Status::passed, passed, "passed") +
           chip(Status::failed, all.size() - passed, "did not pass") + "</ul></header>\n";
}

Status overall_of(const std::vector<const ordered_json*>& all) {
    if (all.empty())
        return Status::untested;
    Status worst = Status::passed;
    for (const ordered_json* run : all) {
        const Status status = status_of_run(*run);
        if (status == Status::failed)
            return status;
        worst = status == Status::passed ? worst : status;
    }
    return worst;
}

} // namespace

} // namespace page

std::string runs_page(const nlohmann::ordered_json& runs) {
    const auto all = page::in_order(runs);
    const Status status = page::overall_of(all);
    std::string html = page::head_of_runs(all, status) + "<main>\n" + page::made({runs});
    if (all.size() > 1)
        html += page::section("runs", "All runs", page::overview(all));
    std::string told;
    for (std::size_t i = 0; i < all.size(); ++i)
        told += page::one_run(*all[i], i, all.size() == 1);
    if (!told.empty())
        html += page::section("each", all.size() == 1 ? "The run" : "Each run", told);
    return page::framed(page::headline(all), status, html + "</main>\n");
}

} // namespace truestep::report
