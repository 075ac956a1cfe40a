// Assembles the HTML page of verified runs: overview, failures first, phases and drawings.
#include <truestep/report/runs.hpp>

#include <algorithm>

#include "run_sections.hpp"

namespace truestep::report {

namespace page {

namespace {

/// The number of runs with all their drawings, failures first. A page with a thousand would not
/// open.
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

/// The runs in the given order, but those that did not pass come first.
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
    return element("span.quiet", number(row, "unbounded") > 0.0 ? "no finite bound" : "not recorded");
}

std::string phases(const ordered_json& run) {
    HtmlTable table("stack", "The verdict by phase",
                    "status:status, phase:head, result:word, values:number, wrong:number, max "
                    "ULP:number, of limit:number");
    for (const ordered_json& row : list(run, "rows"))
        table.row({row_status(row), escaped(row, "phase"), escaped(row, "result"),
                   count_text(number(row, "compared")), count_text(number(row, "mismatched")), ulps_of(row),
                   share_text(row)});
    const bool mistrusted = text(run, "status") == name(Status::mistrusted) ||
                            std::ranges::any_of(list(run, "rows"), [](const ordered_json& row) {
                                return status_of(text(row, "status")) == Status::mistrusted;
                            });
    // The meaning of the level is given above.
    const std::string words = explained_words(false, mistrusted);
    return table.html() + (words.empty() ? "" : element("p.quiet", words));
}

std::string what_parts(const ordered_json& run) {
    const ordered_json& failure = at(run, "failure");
    if (!failure.is_object())
        return {};
    std::string html = element("p.message", escaped(failure, "message"));
    if (!text(failure, "note").empty())
        html += element("p.message", escaped(failure, "note"));
    html += listed("What may be wrong", list(run, "fits"));
    return html + divergence(at(failure, "first"));
}

std::string told(const ordered_json& run, bool drawn) {
    if (unreadable(run))
        return element("p.message", escaped(run, "error"));
    const std::string from =
        text(run, "from") == "recorded" ? ": the recorded state before it" : ": the reference runs free";
    std::string html =
        element("dl.environment",
                fact("run", text(run, "problem")) + fact("source", text(run, "source")) +
                    fact("level", text(run, "level") + ": " + text(run, "explains_level")) +
                    fact("each " + word_for(run, "step") + " begins at", text(run, "from") + from)) +
        what_parts(run) + "<h4>By phase</h4>" + phases(run) + listed("Notes", list(run, "notes"));
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
    // With many runs, the passed ones need not be read.
    return element("article.failure." + class_of(status),
                   element("h3", name) +
                       (alone || status != Status::passed ? body : folded("What it did", body)),
                   {{"id", anchor_of_run(i)}});
}

std::string overview(const std::vector<const ordered_json*>& all) {
    HtmlTable table("stack", "All runs",
                    "status:status, run:head, values:number, wrong:number, first divergence:words");
    for (std::size_t i = 0; i < all.size(); ++i) {
        const ordered_json& run = *all[i];
        double compared = 0.0;
        double wrong = 0.0;
        for (const ordered_json& row : list(run, "rows")) {
            compared += number(row, "compared");
            wrong += number(row, "mismatched");
        }
        const ordered_json& first = at(at(run, "failure"), "first");
        table.row({badge(status_of_run(run), word_of_run(run)),
                   element("a", escaped(run, "path"), {{"href", "#" + anchor_of_run(i)}}),
                   count_text(compared), count_text(wrong),
                   first.is_object() ? escaped(place(first)) : "–"});
    }
    return table.html();
}

std::string head_of_runs(const std::vector<const ordered_json*>& all, Status status) {
    const std::size_t passed = passed_of(all);
    return banner(status, "recorded runs beside the reference", headline(all),
                  count_chip(Status::passed, count_text(static_cast<double>(passed)), "passed") +
                      count_chip(Status::failed, count_text(static_cast<double>(all.size() - passed)),
                                 "did not pass"));
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
    std::string html = page::made({runs});
    if (all.size() > 1)
        html += page::section("runs", "All runs", page::overview(all));
    std::string told;
    for (std::size_t i = 0; i < all.size(); ++i)
        told += page::one_run(*all[i], i, all.size() == 1);
    if (!told.empty())
        html += page::section("each", all.size() == 1 ? "The run" : "Each run", told);
    return page::framed(page::headline(all), status, page::head_of_runs(all, status), html);
}

} // namespace truestep::report
