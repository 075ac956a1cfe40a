// Judges and draws runs of earlier calls as if one call had made them.
#include "train_results.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include <truestep/problem/error.hpp>

namespace truestep::training {

namespace {

/// In the order of first appearance.
std::vector<std::string> optimizers_of(const std::vector<Curve>& curves) {
    std::vector<std::string> names;
    for (const Curve& curve : curves)
        if (std::ranges::find(names, curve.optimizer) == names.end())
            names.push_back(curve.optimizer);
    return names;
}

/// Returns true if there were runs.
bool add_runs(TrainResults& results, const std::vector<Curve>& curves, const std::string& optimizer,
              std::size_t steps) {
    bool any = false;
    for (const Curve& curve : curves)
        if (curve.optimizer == optimizer && end_of(curve).step == steps) {
            results.add(curve);
            any = true;
        }
    return any;
}

} // namespace

bool judge_curves(TrainAsked asked, const training::Plan& plan, const training::Text& text,
                  const std::vector<std::string>& arguments) {
    std::vector<Curve> curves;
    std::set<std::size_t> steps;
    for (const std::string& file : asked.curves)
        for (Curve& curve : training::curves_told(file, text, plan)) {
            steps.insert(end_of(curve).step);
            curves.push_back(std::move(curve));
        }
    if (curves.empty())
        throw Error("--curves: there is no run in " + asked.curves.front() + "; give files with runs");
    asked.optimizers = optimizers_of(curves);
    asked.steps.assign(steps.begin(), steps.end());
    TrainResults results(asked, plan, text, arguments);
    for (const std::size_t length : asked.steps) {
        results.begin(length);
        for (const std::string& optimizer : asked.optimizers) {
            const bool base = optimizer == asked.optimizers.front();
            if (!add_runs(results, curves, optimizer, length))
                continue;
            if (base)
                results.fix_sigma();
            else if (const std::string verdict = results.judge(optimizer); !verdict.empty())
                std::printf("%s\n", verdict.c_str());
        }
    }
    results.write();
    return results.good();
}

} // namespace truestep::training
