// The page of training runs: verdicts, curves, maps, floors, and every run.
#include <truestep/training/drawing.hpp>

#include <algorithm>
#include <cmath>

#include <truestep/problem/text.hpp>
#include <truestep/report/frame.hpp>

namespace truestep::training {

namespace {

using namespace report::page;
using report::Status;

Status status_of(Outcome outcome) {
    switch (outcome) {
    case Outcome::same:
    case Outcome::better:
        return Status::passed;
    case Outcome::worse:
        return Status::failed;
    case Outcome::undecided:
    case Outcome::mistrusted:
        break;
    }
    return Status::mistrusted;
}

std::size_t how_many(const TrainingResults& results, Status status) {
    return static_cast<std::size_t>(std::ranges::count_if(results.comparisons, [&](const Comparison& one) {
        return status_of(one.verdict.outcome) == status;
    }));
}

Status overall(const TrainingResults& results) {
    if (results.comparisons.empty())
        return Status::untested;
    for (const Status status : {Status::failed, Status::mistrusted})
        if (how_many(results, status) > 0)
            return status;
    return Status::passed;
}

std::string headline(const TrainingResults& results) {
    const std::string of = " of " + count_of(results.comparisons.size(), "comparison");
    switch (overall(results)) {
    case Status::passed:
        return "No candidate is worse than the base line";
    case Status::failed:
        return std::to_string(how_many(results, Status::failed)) + of + ": worse than the base line";
    case Status::mistrusted:
        return std::to_string(how_many(results, Status::mistrusted)) + of + " decided nothing";
    case Status::skipped:
    case Status::untested:
        break;
    }
    return "Nothing was compared";
}

std::string cell(const std::string& label, const std::string& content, const std::string& kind) {
    return "<td role=\"cell\" data-label=\"" + label + "\" class=\"" + kind + "\">" + content + "</td>";
}

struct Column {
    std::string name;
    std::string kind = "word"; ///< of its cells, but for those that head their row
};

/// Begins a table whose rows are cards on a phone.
std::string table_of(const std::string& caption, const std::vector<Column>& columns) {
    std::string html = "<table class=\"stack\" role=\"table\"><caption class=\"sr\">" + caption +
                       "</caption><thead role=\"rowgroup\"><tr role=\"row\">";
    for (const Column& column : columns)
        html += "<th scope=\"col\" role=\"columnheader\" class=\"" + column.kind + "\">" + column.name +
                "</th>";
    return html + "</tr></thead><tbody role=\"rowgroup\">";
}

std::string row_head(const std::string& content) {
    return "<th scope=\"row\" role=\"rowheader\">" + content + "</th>";
}

std::string verdicts(const TrainingResults& results) {
    std::string html =
        "<p class=\"lead\">Loss on the measured part, candidate less base line, in pairs of one "
        "seed (the same start, the same data). Sigma was fixed beforehand: " +
        escaped(shortest(results.sigma.of_difference)) + " nats, from " + escaped(results.sigma.how) +
        ".</p>" +
        table_of("The verdicts", {{"verdict"},
                                  {"candidate"},
                                  {"beside"},
                                  {"difference", "number"},
                                  {"steps", "number"},
                                  {"says"}});
    for (const Comparison& one : results.comparisons) {
        const Verdict& verdict = one.verdict;
        html +=
            "<tr role=\"row\">" +
            cell("verdict", badge(status_of(verdict.outcome), name(verdict.outcome)), "status") +
            row_head(escaped(one.candidate) + "<span class=\"says\">" + escaped(one.setting) + "</span>") +
            cell("beside", escaped(one.base), "word") +
            cell("difference", fixed(verdict.difference, 3) + " ± " + fixed(verdict.uncertainty, 3),
                 "number") +
            cell("steps", verdict.steps ? fixed(*verdict.steps, 2) + " ×" : "–", "number") +
            cell("says", escaped(text(verdict)), "words") + "</tr>";
    }
    return html + "</tbody></table>";
}

std::string figure(const std::string& name, const std::string& drawing) {
    return "<figure class=\"chart\"><h3>" + name + "</h3>" + drawing + "</figure>";
}

std::string curves(const TrainingResults& results) {
    return "<div class=\"maps\">" +
           figure("Loss over steps", loss_over_steps(results.curves, results.levels)) +
           figure("Loss over bytes sent", loss_over_bytes(results.curves, results.levels)) +
           "</div><p class=\"quiet\">Thin: a seed each. Thick: their median. Dashed: what counting n-grams "
           "reaches on the same text. A run that does not beat the trigram says nothing of optimizers.</p>";
}

std::string maps(const TrainingResults& results) {
    std::string html = "<div class=\"maps\">";
    for (const TrainingResults::Map& map : results.maps)
        html += "<figure class=\"chart\">" + verdict_map(map.title, map.cells) +
                "</figure>"; // which has its title
    return html + "</div>";
}

std::string floors_table(const TrainingResults& results) {
    std::string html =
        table_of("The floors", {{"floor"}, {"looks back", "number"}, {"nats a symbol", "number"}});
    for (const Floor& floor : results.levels.floors)
        html += "<tr role=\"row\">" + row_head(name(floor)) +
                cell("looks back", std::to_string(floor.order), "number") +
                cell("nats a symbol", fixed(floor.loss, 4), "number") + "</tr>";
    if (results.levels.entropy)
        html += "<tr role=\"row\">" + row_head("entropy of the source") +
                cell("looks back", "all", "number") +
                cell("nats a symbol", fixed(*results.levels.entropy, 4), "number") + "</tr>";
    return html + "</tbody></table>";
}

/// No loss that some optimizer never reaches can be paid for by all: the highest of the medians' ends.
double reached_by_all(const std::vector<std::vector<Curve>>& groups) {
    double loss = 0.0;
    for (const std::vector<Curve>& runs : groups)
        loss = std::max(loss, median_of(runs).back().loss);
    return loss;
}

std::string runs(const TrainingResults& results) {
    const std::vector<std::vector<Curve>> groups = by_optimizer(results.curves);
    const double loss = reached_by_all(groups);
    const std::string price = "bytes to " + fixed(loss, 3);
    std::string html = table_of("All runs", {{"optimizer"},
                                             {"seeds and their last loss"},
                                             {"steps", "number"},
                                             {"bytes sent", "number"},
                                             {price, "number"}});
    for (const std::vector<Curve>& runs : groups) {
        std::string seeds;
        for (const Curve& run : runs)
            seeds += "<li>" + std::to_string(run.seed) + ": <b>" + fixed(end_of(run).loss, 4) + "</b></li>";
        const std::vector<Curve::Point> median = median_of(runs);
        const std::optional<double> bytes = bytes_to(median, loss);
        html += "<tr role=\"row\">" + row_head(escaped(runs.front().optimizer)) +
                cell("seeds", "<ul class=\"chips\">" + seeds + "</ul>", "words") +
                cell("steps", std::to_string(median.back().step), "number") +
                cell("bytes sent", count_text(static_cast<double>(median.back().bytes)), "number") +
                cell(price, bytes ? count_text(std::round(*bytes)) : "–", "number") + "</tr>";
    }
    return html + "</tbody></table>";
}

std::string head(const TrainingResults& results, Status status) {
    std::string chips;
    for (const Outcome outcome :
         {Outcome::same, Outcome::worse, Outcome::better, Outcome::undecided, Outcome::mistrusted}) {
        const auto count = std::ranges::count_if(
            results.comparisons, [&](const Comparison& one) { return one.verdict.outcome == outcome; });
        if (count > 0)
            chips += "<li class=\"" + class_of(status_of(outcome)) + "\"><b>" + std::to_string(count) +
                     "</b> <span aria-hidden=\"true\">" + symbol(status_of(outcome)) + "</span> " +
                     name(outcome) + "</li>";
    }
    return "<header class=\"" + class_of(status) + "\"><p class=\"what\">truestep: training on " +
           escaped(results.text) + "</p><div class=\"verdict\"><span class=\"sign\" aria-hidden=\"true\">" +
           symbol(status) + "</span><h1>" + headline(results) + "</h1></div><ul class=\"counts\">" + chips +
           "</ul></header>\n";
}

} // namespace

std::string training_page(const TrainingResults& results) {
    const Status status = overall(results);
    std::string html = head(results, status) + "<main>\n" + made({results.made});
    if (!results.comparisons.empty())
        html += section("verdicts", "Verdicts", verdicts(results));
    if (!results.curves.empty())
        html += section("curves", "Curves", curves(results));
    if (!results.maps.empty())
        html += section("maps", "Where it holds", maps(results));
    if (!results.levels.floors.empty())
        html += section("floors", "Floors", floors_table(results));
    if (!results.curves.empty())
        html += section("runs", "Every run", runs(results));
    return framed(headline(results), status, html + "</main>\n");
}

} // namespace truestep::training
