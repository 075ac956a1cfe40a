// Judges from pairs of seeds whether a candidate's final loss is the same, worse or better.
#include <truestep/training/judge.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/report/frame.hpp>

#include "tails.hpp"

namespace truestep::training {

namespace {

using report::page::fixed;

std::string quoted(const Curve& curve) {
    return "'" + one_line(curve.optimizer) + "'";
}

double mean_of_values(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double value : values)
        sum += value;
    return sum / static_cast<double>(values.size());
}

/// The variance with one degree of freedom less than there are values.
double variance_of(const std::vector<double>& values) {
    const double mean = mean_of_values(values);
    double sum = 0.0;
    for (const double value : values)
        sum += (value - mean) * (value - mean);
    return sum / static_cast<double>(values.size() - 1);
}

void check_seeds(std::span<const Curve> runs) {
    for (auto run = runs.begin(); run != runs.end(); ++run)
        if (std::any_of(runs.begin(), run, [&](const Curve& other) { return other.seed == run->seed; }))
            throw Error("seed " + std::to_string(run->seed) + " of " + quoted(*run) +
                        " is there twice; give each run once");
}

const Curve& partner(std::span<const Curve> base, const Curve& of) {
    const auto found = std::ranges::find(base, of.seed, &Curve::seed);
    if (found == base.end())
        throw Error("seed " + std::to_string(of.seed) + " of " + quoted(of) +
                    " has no run of the base line; run both with the same seeds");
    if (end_of(*found).step != end_of(of).step)
        throw Error("seed " + std::to_string(of.seed) + " of " + quoted(of) + " ends after step " +
                    std::to_string(end_of(of).step) + " and that of the base line after " +
                    std::to_string(end_of(*found).step) + "; compare runs of one length");
    return *found;
}

/// Candidate minus base line at the ends, seed by seed.
std::vector<double> differences(std::span<const Curve> base, std::span<const Curve> candidate) {
    check_seeds(base);
    check_seeds(candidate);
    if (candidate.empty())
        throw Error("there is no run of the candidate; give at least one seed");
    if (base.size() != candidate.size())
        throw Error("the base line has " + std::to_string(base.size()) + " runs and the candidate " +
                    std::to_string(candidate.size()) + "; run both with the same seeds");
    std::vector<double> all;
    for (const Curve& run : candidate)
        all.push_back(end_of(run).loss - end_of(partner(base, run)).loss);
    return all;
}

Sigma measured(const std::vector<double>& values, double factor, const std::string& what) {
    if (values.size() < 2)
        throw Error("sigma: " + std::to_string(values.size()) + " " + what + "; it takes at least 2");
    Sigma sigma{.of_difference = factor * std::sqrt(variance_of(values)),
                .from = values.size(),
                .how = std::to_string(values.size()) + " " + what};
    if (!std::isfinite(sigma.of_difference) || sigma.of_difference <= 0.0)
        throw Error("sigma: of " + sigma.how + " it is " + shortest(sigma.of_difference) +
                    "; it takes runs that end, and end at different losses");
    return sigma;
}

/// Which run is no better than counting, and therefore proves nothing; "" if all are better.
std::string no_better_than_counting(std::span<const Curve> runs, double trigram) {
    for (const Curve& run : runs)
        // This includes NaN.
        if (!(end_of(run).loss < trigram))
            return "seed " + std::to_string(run.seed) + " of " + quoted(run) + " ends at " +
                   fixed(end_of(run).loss, 3) + ", which does not beat the trigram (" + fixed(trigram, 3) +
                   "): it says nothing of optimizers";
    return {};
}

/// Reports pairs that scatter more than sigma can explain, so that sigma must be wrong. Their
/// scatter never makes sigma smaller.
std::string scatter_too_much(const std::vector<double>& pairs, const Sigma& sigma) {
    if (pairs.size() < 2)
        return {};
    const double variance = variance_of(pairs);
    const double tail =
        fisher_tail(variance / (sigma.of_difference * sigma.of_difference),
                    static_cast<double>(pairs.size() - 1), static_cast<double>(sigma.from - 1));
    if (tail >= chance_of_limit())
        return {};
    return "the pairs scatter by " + fixed(std::sqrt(variance), 4) + ", and sigma, from " + sigma.how +
           ", is " + fixed(sigma.of_difference, 4) + ": it does not hold for this candidate";
}

Outcome decided(const Verdict& verdict) {
    const double low = verdict.difference - verdict.uncertainty;
    const double high = verdict.difference + verdict.uncertainty;
    if (low > -verdict.margin && high < verdict.margin)
        return Outcome::same;
    return low > 0.0 ? Outcome::worse : high < 0.0 ? Outcome::better : Outcome::undecided;
}

/// The number of pairs that would prove this difference unequal to 0, or within the margin,
/// whichever needs fewer.
std::size_t pairs_needed(const Verdict& verdict, const Sigma& sigma) {
    const double size = std::abs(verdict.difference);
    const double gap = std::max(size, verdict.margin - size);
    const double needed = verdict.limit * sigma.of_difference / gap;
    return static_cast<std::size_t>(std::floor(needed * needed)) + 1;
}

} // namespace

Sigma sigma_of_seeds(std::span<const Curve> base) {
    check_seeds(base);
    std::vector<double> losses;
    for (const Curve& run : base)
        losses.push_back(end_of(run).loss);
    return measured(losses, std::numbers::sqrt2, "seeds of the base line");
}

Sigma sigma_of_twins(std::span<const Curve> base, std::span<const Curve> twins) {
    return measured(differences(base, twins), 1.0, "pairs of the base line and its twin");
}

std::string name(Outcome outcome) {
    switch (outcome) {
    case Outcome::same:
        return "SAME";
    case Outcome::worse:
        return "WORSE";
    case Outcome::better:
        return "BETTER";
    case Outcome::undecided:
        return "UNDECIDED";
    case Outcome::mistrusted:
        break;
    }
    return "MISTRUSTED";
}

Verdict judge(std::span<const Curve> base, std::span<const Curve> candidate, const Sigma& sigma,
              double margin, double trigram) {
    if (!(margin > 0.0) || !std::isfinite(margin))
        throw Error("the margin is " + shortest(margin) +
                    "; it must be above 0: no number of runs shows that there is no difference at all");
    if (!(sigma.of_difference > 0.0) || sigma.from < 2)
        throw Error("sigma is " + shortest(sigma.of_difference) + " from " + std::to_string(sigma.from) +
                    " runs; measure it on the base line first");
    const std::vector<double> pairs = differences(base, candidate);
    Verdict verdict;
    verdict.pairs = pairs.size();
    verdict.margin = margin;
    verdict.difference = mean_of_values(pairs);
    const double root = std::sqrt(static_cast<double>(pairs.size()));
    verdict.z = verdict.difference * root / sigma.of_difference;
    // A normal variable exceeds 3.09 once in 1000 times, and is below -3.09 as often. So often is a
    // candidate without a difference called worse, or better, and one whose difference is the
    // margin called the same. This holds for a known sigma. One from a few runs may be too small by
    // chance, so the limit is that of Student's t: 4.3 from 10 runs, 3.3 from 40.
    verdict.limit = student_limit(static_cast<double>(sigma.from - 1));
    verdict.uncertainty = verdict.limit * sigma.of_difference / root;
    verdict.steps = steps_ratio(mean_of(base), mean_of(candidate));

    verdict.why = no_better_than_counting(base, trigram);
    if (verdict.why.empty())
        verdict.why = no_better_than_counting(candidate, trigram);
    if (verdict.why.empty())
        verdict.why = scatter_too_much(pairs, sigma);
    if (!verdict.why.empty())
        return verdict;
    verdict.outcome = decided(verdict);
    if (verdict.outcome == Outcome::undecided) {
        verdict.needs = pairs_needed(verdict, sigma);
        verdict.why = "needs about " + std::to_string(verdict.needs) +
                      " seeds: run so many anew, for adding to these until it is decided is stopping early";
    }
    return verdict;
}

std::string text(const Verdict& verdict) {
    std::string line = name(verdict.outcome);
    if (verdict.outcome == Outcome::mistrusted)
        return line + ": " + verdict.why;
    const bool sized = verdict.outcome == Outcome::worse || verdict.outcome == Outcome::better;
    line += sized ? " by " + fixed(std::abs(verdict.difference), 3)
                  : ": the difference is " + fixed(verdict.difference, 3);
    line +=
        " ± " + fixed(verdict.uncertainty, 3) + " nats (" + report::page::count_of(verdict.pairs, "pair");
    line += ", margin " + shortest(verdict.margin) + ")";
    if (verdict.outcome == Outcome::undecided)
        return line + "; " + verdict.why;
    if (verdict.steps)
        line += "; needs " + fixed(*verdict.steps, 2) + " times the steps";
    return line;
}

} // namespace truestep::training
