#include "train_results.hpp"

#include <algorithm>
#include <filesystem>

#include <scape/problem/error.hpp>
#include <scape/report/environment.hpp>
#include <scape/report/folder.hpp>

namespace scape::tool {

using training::Curve;

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

void TrainResults::add(Curve curve) {
    results_.curves.push_back(std::move(curve));
    write();
}

std::vector<Curve> TrainResults::runs_of(const std::string& optimizer, std::size_t most) const {
    std::vector<Curve> runs;
    for (const Curve& curve : results_.curves)
        if (curve.optimizer == optimizer && runs.size() < most)
            runs.push_back(curve);
    return runs;
}

void TrainResults::fix_sigma() {
    const std::vector<Curve> base = runs_of(asked_.optimizers.front(), results_.curves.size());
    if (base.size() > 1)
        results_.sigma = training::sigma_of_seeds(base);
}

std::string TrainResults::judge(const std::string& candidate) {
    if (results_.sigma.from == 0)
        return {};
    const std::string& base = asked_.optimizers.front();
    training::Comparison comparison{
        .base = base,
        .candidate = candidate,
        .setting = std::to_string(plan_.steps) + " steps, " + std::to_string(plan_.ranks) +
                   " ranks, batch " + std::to_string(plan_.batch) + " a rank",
        .verdict = training::judge(runs_of(base, asked_.seeds), runs_of(candidate, asked_.seeds),
                                   results_.sigma, asked_.margin, training::trigram(floors()))};
    results_.comparisons.push_back(comparison);
    write();
    return candidate + " beside " + base + ": " + text(comparison.verdict);
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
    write_results(asked_.report + "/training.json", text_, plan_, results_);
}

} // namespace scape::tool
