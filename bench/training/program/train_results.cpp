// Collects the curves of `truestep train`, judges candidates against the base line, writes files.
#include "train_results.hpp"

#include <algorithm>
#include <filesystem>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/report/environment.hpp>
#include <truestep/report/folder.hpp>

namespace truestep::training {

TrainResults::TrainResults(const TrainAsked& asked, const training::Plan& plan, const training::Text& text,
                           const std::vector<std::string>& arguments)
    : asked_(asked), plan_(plan), text_(text) {
    results_.text = words_of(text);
    results_.levels = {training::floors(text), text.entropy};
    results_.made = {{"command", arguments}, {"environment", report::json_environment()}};
    if (asked.report.empty())
        return;
    std::error_code failed;
    std::filesystem::create_directories(asked.report, failed);
    if (failed)
        throw Error("cannot make the folder " + asked.report + ": " + failed.message());
}

void TrainResults::begin(std::size_t steps) {
    steps_ = steps;
    results_.sigma = {};
}

/// Runs of different lengths are neither pairs nor a group to draw, so the label includes the
/// steps.
std::string TrainResults::label(const std::string& optimizer) const {
    return asked_.steps.size() == 1 ? optimizer : optimizer + ", " + std::to_string(steps_) + " steps";
}

void TrainResults::add(Curve curve) {
    curve.optimizer = label(curve.optimizer);
    results_.curves.push_back(std::move(curve));
}

std::vector<Curve> TrainResults::runs_of(const std::string& optimizer) const {
    std::vector<Curve> runs;
    for (const Curve& curve : results_.curves)
        if (curve.optimizer == label(optimizer))
            runs.push_back(curve);
    return runs;
}

std::vector<Curve> TrainResults::partners(const std::vector<Curve>& runs) const {
    std::vector<Curve> found = runs_of(asked_.optimizers.front());
    std::erase_if(found, [&](const Curve& base) {
        return std::ranges::find(runs, base.seed, &Curve::seed) == runs.end();
    });
    return found;
}

void TrainResults::fix_sigma() {
    const std::vector<Curve> base = runs_of(asked_.optimizers.front());
    if (base.size() > 1)
        results_.sigma = training::sigma_of_seeds(base);
}

std::string TrainResults::judge(const std::string& candidate) {
    if (results_.sigma.from == 0)
        return {};
    const std::string& base = asked_.optimizers.front();
    const std::vector<Curve> runs = runs_of(candidate);
    const std::vector<Curve> base_runs = partners(runs);
    const training::Comparison comparison{
        .base = label(base),
        .candidate = label(candidate),
        .setting = std::to_string(steps_) + " steps, " + std::to_string(plan_.ranks) + " ranks, batch " +
                   std::to_string(plan_.batch) + " a rank, learning rates " +
                   shortest(base_runs.front().learning_rate) + " and " +
                   shortest(runs.front().learning_rate),
        .verdict =
            training::judge(base_runs, runs, results_.sigma, asked_.margin, training::trigram(floors()))};
    results_.comparisons.push_back(comparison);
    map(candidate, comparison.verdict);
    write();
    return comparison.candidate + " beside " + base + ": " + text(comparison.verdict);
}

/// Adds to the map of SCAPE's densities by steps.
void TrainResults::map(const std::string& candidate, const training::Verdict& verdict) {
    constexpr std::string_view scape = "scape:";
    const bool compressed = candidate.find('+') != std::string::npos; // another row of densities
    if (asked_.steps.size() == 1 || !candidate.starts_with(scape) || compressed)
        return;
    if (results_.maps.empty())
        results_.maps.push_back({.title = "scape beside " + asked_.optimizers.front(), .cells = {}});
    results_.maps.front().cells.push_back(
        {.density = std::stod(candidate.substr(scape.size())), .steps = steps_, .verdict = verdict});
}

bool TrainResults::good() const {
    return std::ranges::all_of(results_.comparisons, [](const training::Comparison& comparison) {
        return comparison.verdict.outcome == training::Outcome::same ||
               comparison.verdict.outcome == training::Outcome::better;
    });
}

void TrainResults::write() const {
    if (!asked_.json.empty())
        write_results(asked_.json, text_, plan_, results_);
    if (asked_.report.empty())
        return;
    report::write_text(asked_.report + "/index.html", training_page(results_));
    const auto picture = [&](const std::string& name, const std::string& svg) {
        report::write_text(asked_.report + "/" + name + ".svg", svg);
    };
    if (!results_.curves.empty()) {
        picture("over-steps", loss_over_steps(results_.curves, results_.levels));
        picture("over-bytes", loss_over_bytes(results_.curves, results_.levels));
    }
    for (const training::TrainingResults::Map& map : results_.maps)
        picture("map", verdict_map(map.title, map.cells));
    write_results(asked_.report + "/training.json", text_, plan_, results_);
}

} // namespace truestep::training
