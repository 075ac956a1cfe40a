// Writes the page of training runs: verdicts, curves, maps, floors, and every run.
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

std::string verdicts(const TrainingResults& results) {
    HtmlTable table(
        "stack", "The verdicts",
        "verdict:status, candidate:head, beside:word, difference:number, steps:number, says:words");
    for (const Comparison& one : results.comparisons) {
        const Verdict& verdict = one.verdict;
        table.row({badge(status_of(verdict.outcome), name(verdict.outcome)),
                   escaped(one.candidate) + element("span.says", escaped(one.setting)), escaped(one.base),
                   fixed(verdict.difference, 3) + " ± " + fixed(verdict.uncertainty, 3),
                   verdict.steps ? fixed(*verdict.steps, 2) + " ×" : "–", escaped(text(verdict))});
    }
    return element("p.lead",
                   "Loss on the measured part, candidate less base line, in pairs of one seed (the same "
                   "start, the same data). Sigma was fixed beforehand: " +
                       escaped(shortest(results.sigma.of_difference)) + " nats, from " +
                       escaped(results.sigma.how) + ".") +
           table.html();
}

std::string curves(const TrainingResults& results) {
    const auto figure = [](const std::string& heading, const std::string& drawing) {
        return element("figure.chart", element("h3", heading) + drawing);
    };
    return element("div.maps",
                   figure("Loss over steps", loss_over_steps(results.curves, results.levels)) +
                       figure("Loss over bytes sent", loss_over_bytes(results.curves, results.levels))) +
           element(
               "p.quiet",
               "Thin: a seed each. Thick: their median. Dashed: what counting n-grams reaches on the same "
               "text. A run that does not beat the trigram says nothing of optimizers.");
}

std::string maps(const TrainingResults& results) {
    std::string html;
    for (const TrainingResults::Map& map : results.maps)
        html += element("figure.chart", verdict_map(map.title, map.cells)); // the map has its own title
    return element("div.maps", html);
}

std::string floors_table(const TrainingResults& results) {
    HtmlTable table("stack", "The floors", "floor:head, looks back:number, nats a symbol:number");
    for (const Floor& floor : results.levels.floors)
        table.row({name(floor), std::to_string(floor.order), fixed(floor.loss, 4)});
    if (results.levels.entropy)
        table.row({"entropy of the source", "all", fixed(*results.levels.entropy, 4)});
    return table.html();
}

/// The lowest loss that all optimizers reach: the highest of the medians' ends.
double reached_by_all(const std::vector<std::vector<Curve>>& groups) {
    double loss = 0.0;
    for (const std::vector<Curve>& runs : groups)
        loss = std::max(loss, median_of(runs).back().loss);
    return loss;
}

std::string runs(const TrainingResults& results) {
    const std::vector<std::vector<Curve>> groups = by_optimizer(results.curves);
    const double loss = reached_by_all(groups);
    HtmlTable table(
        "stack", "All runs",
        "optimizer:head, seeds and their last loss:words, steps:number, bytes sent:number, bytes to " +
            fixed(loss, 3) + ":number");
    for (const std::vector<Curve>& runs : groups) {
        std::string seeds;
        for (const Curve& run : runs)
            seeds +=
                element("li", std::to_string(run.seed) + ": " + element("b", fixed(end_of(run).loss, 4)));
        const std::vector<Curve::Point> median = median_of(runs);
        const std::optional<double> bytes = bytes_to(median, loss);
        table.row({escaped(runs.front().optimizer), element("ul.chips", seeds),
                   std::to_string(median.back().step), count_text(static_cast<double>(median.back().bytes)),
                   bytes ? count_text(std::round(*bytes)) : "–"});
    }
    return table.html();
}

std::string head(const TrainingResults& results, Status status) {
    std::string chips;
    for (const Outcome outcome :
         {Outcome::same, Outcome::worse, Outcome::better, Outcome::undecided, Outcome::mistrusted}) {
        const auto count = std::ranges::count_if(
            results.comparisons, [&](const Comparison& one) { return one.verdict.outcome == outcome; });
        if (count > 0)
            chips += count_chip(status_of(outcome), std::to_string(count), name(outcome));
    }
    return banner(status, "training on " + escaped(results.text), headline(results), chips);
}

} // namespace

std::string training_page(const TrainingResults& results) {
    const Status status = overall(results);
    std::string html = made({results.made});
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
    return framed(headline(results), status, head(results, status), html);
}

} // namespace truestep::training
