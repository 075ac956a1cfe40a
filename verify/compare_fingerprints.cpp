// Compares the fingerprints of a run's ranks, or of two runs, and reports the first difference.
#include <truestep/verify/compare_fingerprints.hpp>

#include <algorithm>
#include <cstddef>
#include <set>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/verdict_builder.hpp>

namespace truestep::verify {

namespace {

using trace::RankFingerprints;

std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names)
        text += (text.empty() ? "" : ", ") + name;
    return text;
}

std::string ranks_in(const std::vector<int>& ranks) {
    std::vector<std::string> names;
    names.reserve(ranks.size());
    for (const int rank : ranks)
        names.push_back(std::to_string(rank));
    return (ranks.size() == 1 ? "rank " : "ranks ") + listed(names);
}

bool has_same_tensors(const RankFingerprints& a, const RankFingerprints& b) {
    return std::ranges::equal(a.tensors, b.tensors,
                              [](const problem::Tensor& one, const problem::Tensor& two) {
                                  return one.name == two.name && one.size == two.size;
                              });
}

bool has_same_results(const RankFingerprints& a, const RankFingerprints& b) {
    return std::ranges::equal(a.results, b.results,
                              [](const RankFingerprints::Result& one, const RankFingerprints::Result& two) {
                                  return one.name == two.name && one.same == two.same;
                              });
}

/// Both must come from one program, or they cannot be compared.
void expect_one_run(const RankFingerprints& first, const RankFingerprints& other) {
    const auto refuse = [&](const std::string& what) {
        throw Error(other.path.string() + ": its " + what + " not those of " + first.path.string() +
                    "; give the files of one run");
    };
    if (first.workers != other.workers)
        refuse("workers (" + std::to_string(other.workers) + ") are");
    if (!has_same_tensors(first, other))
        refuse("tensors are");
    if (!has_same_results(first, other))
        refuse("results are");
    for (std::size_t i = 0; i < std::min(first.steps.size(), other.steps.size()); ++i)
        if (first.steps[i].step != other.steps[i].step)
            refuse("steps (" + std::to_string(other.steps[i].step) + " in place of " +
                   std::to_string(first.steps[i].step) + ") are");
}

/// Compares the fingerprints of several ranks in one step, with each other or with another run's.
class StepComparison {
  public:
    StepComparison(const RankFingerprints& names, Index step, Index after) : names_(names) {
        difference_.step = step;
        difference_.after = after;
    }

    /// `who` returns, for each tensor, the list of ranks that differ, which may be empty.
    template <class Who>
    void add(std::size_t result, const Who& who) {
        FingerprintDifference::Share share{names_.results[result].name, 0, 0};
        for (std::size_t tensor = 0; tensor < names_.tensors.size(); ++tensor) {
            const std::vector<int> ranks = who(tensor);
            ++share.all;
            if (ranks.empty())
                continue;
            ++share.others;
            if (difference_.result.empty()) {
                difference_.result = share.result;
                difference_.tensor = names_.tensors[tensor].name;
                difference_.ranks = ranks;
            }
        }
        difference_.shares.push_back(std::move(share));
    }

    void add_learning_rate(const std::vector<int>& ranks) {
        if (ranks.empty() || !difference_.result.empty())
            return;
        difference_.result = "learning_rate";
        difference_.ranks = ranks;
    }

    [[nodiscard]] Index compared() const {
        Index all = 0;
        for (const FingerprintDifference::Share& share : difference_.shares)
            all += share.all;
        return all;
    }
    [[nodiscard]] std::optional<FingerprintDifference> take() {
        if (difference_.result.empty())
            return std::nullopt;
        return std::move(difference_);
    }

  private:
    const RankFingerprints& names_;
    FingerprintDifference difference_;
};

void compare_ranks(const RunFingerprints& run, PrintsVerdict& verdict) {
    const RankFingerprints& first = run.front();
    for (const RankFingerprints::Result& result : first.results)
        if (result.same && run.size() > 1)
            verdict.replicated.push_back(result.name);
    if (verdict.replicated.empty())
        return;
    std::size_t steps = first.steps.size();
    for (const RankFingerprints& rank : run)
        steps = std::min(steps, rank.steps.size());
    for (std::size_t i = 0; i < steps && !verdict.between_ranks; ++i) {
        StepComparison step(first, first.steps[i].step, i == 0 ? 0 : first.steps[i - 1].step);
        for (std::size_t result = 0; result < first.results.size(); ++result)
            if (first.results[result].same)
                step.add(result, [&](std::size_t tensor) {
                    std::vector<std::uint64_t> held;
                    for (const RankFingerprints& rank : run)
                        held.push_back(rank.steps[i].of[result][tensor]);
                    std::vector<int> ranks;
                    for (const int odd : odd_ones(held))
                        ranks.push_back(run[static_cast<std::size_t>(odd)].rank);
                    return ranks;
                });
        verdict.compared += step.compared() * static_cast<Index>(run.size() - 1);
        verdict.between_ranks = step.take();
    }
}

/// One rank's files of two runs.
struct RankPrints {
    const RankFingerprints& a;
    const RankFingerprints& b;
};

std::vector<RankPrints> pairs(const RunFingerprints& run, const RunFingerprints& other,
                              PrintsVerdict& verdict) {
    std::vector<RankPrints> all;
    std::vector<int> alone;
    for (const RankFingerprints& a : run) {
        const auto b = std::ranges::find(other, a.rank, &RankFingerprints::rank);
        if (b == other.end())
            alone.push_back(a.rank);
        else
            all.push_back({a, *b});
    }
    if (all.empty())
        throw Error(other.front().path.string() +
                    ": the two runs have no rank in common; give files of the same ranks");
    if (!alone.empty())
        verdict.notes.push_back(ranks_in(alone) + " of the first run alone: not compared with the other");
    return all;
}

/// For each result of a, the same one of b; notes those that only one of them has.
std::vector<std::optional<std::size_t>> common_results(const RankFingerprints& a, const RankFingerprints& b,
                                                       bool same_workers, PrintsVerdict& verdict) {
    std::vector<std::optional<std::size_t>> common;
    std::vector<std::string> alone;
    bool any = false;
    for (const RankFingerprints::Result& result : a.results) {
        const auto found = std::ranges::find(b.results, result.name, &RankFingerprints::Result::name);
        // With different numbers of ranks only results that all ranks share can be the same.
        const bool comparable = found != b.results.end() && (same_workers || (result.same && found->same));
        common.push_back(comparable ? std::optional(static_cast<std::size_t>(found - b.results.begin()))
                                    : std::nullopt);
        any = any || comparable;
        if (!comparable)
            alone.push_back(result.name);
    }
    if (!any)
        throw Error(b.path.string() + ": it has no result in common with " + a.path.string() +
                    "; record the same of both runs");
    if (!alone.empty())
        verdict.notes.push_back("not in both runs, or not of as many ranks: " + listed(alone));
    return common;
}

const RankFingerprints::Step* step_of(const RankFingerprints& prints, Index step) {
    const auto found = std::ranges::lower_bound(prints.steps, step, {}, &RankFingerprints::Step::step);
    return found == prints.steps.end() || found->step != step ? nullptr : &*found;
}

void compare_step(const std::vector<RankPrints>& both,
                  const std::vector<std::optional<std::size_t>>& common, Index at, PrintsVerdict& verdict) {
    StepComparison step(both.front().a, at, verdict.together);
    std::vector<int> rates;
    for (const RankPrints& pair : both)
        if (step_of(pair.a, at)->learning_rate != step_of(pair.b, at)->learning_rate)
            rates.push_back(pair.a.rank);
    step.add_learning_rate(rates);
    for (std::size_t result = 0; result < common.size(); ++result)
        if (common[result])
            step.add(result, [&](std::size_t tensor) {
                std::vector<int> ranks;
                for (const RankPrints& pair : both)
                    if (step_of(pair.a, at)->of[result][tensor] !=
                        step_of(pair.b, at)->of[*common[result]][tensor])
                        ranks.push_back(pair.a.rank);
                return ranks;
            });
    verdict.compared += step.compared() * static_cast<Index>(both.size());
    verdict.between_runs = step.take();
    if (!verdict.between_runs)
        verdict.together = at;
}

void compare_runs(const RunFingerprints& run, const RunFingerprints& other, PrintsVerdict& verdict) {
    const RankFingerprints& a = run.front();
    const RankFingerprints& b = other.front();
    if (!has_same_tensors(a, b))
        throw Error(b.path.string() + ": its tensors are not those of " + a.path.string() +
                    "; compare runs of one model");
    const std::vector<RankPrints> both = pairs(run, other, verdict);
    const auto common = common_results(a, b, a.workers == b.workers, verdict);
    bool any = false;
    for (const RankFingerprints::Step& step : a.steps) {
        const bool in_all = std::ranges::all_of(both, [&](const RankPrints& pair) {
            return step_of(pair.a, step.step) != nullptr && step_of(pair.b, step.step) != nullptr;
        });
        if (!in_all)
            continue;
        any = true;
        compare_step(both, common, step.step, verdict);
        if (verdict.between_runs)
            return;
    }
    if (!any)
        throw Error(b.path.string() + ": the two runs have no step in common");
}

void note_ends(const RunFingerprints& run, PrintsVerdict& verdict) {
    std::vector<int> missing;
    for (int rank = 0; rank < run.front().workers; ++rank)
        if (std::ranges::find(run, rank, &RankFingerprints::rank) == run.end())
            missing.push_back(rank);
    if (!missing.empty())
        verdict.notes.push_back(ranks_in(missing) + " not given: no verdict on " +
                                (missing.size() == 1 ? "it" : "them"));
    for (const RankFingerprints& rank : run) {
        const Index last = rank.steps.empty() ? 0 : rank.steps.back().step;
        if (rank.torn)
            verdict.notes.push_back(rank.path.string() + " ends in the midst of a line, after step " +
                                    std::to_string(last));
        else if (rank.steps.size() < run.front().steps.size())
            verdict.notes.push_back(rank.path.string() + " ends after step " + std::to_string(last));
    }
}

std::string difference_text(const FingerprintDifference& difference) {
    std::string text = "step " + std::to_string(difference.step) + ", " + difference.result + " of " +
                       ranks_in(difference.ranks);
    if (!difference.tensor.empty())
        text += ", tensor " + difference.tensor;
    text += '\n';
    for (const FingerprintDifference::Share& share : difference.shares)
        text += "           " + share.result + ": " + std::to_string(share.others) + " of " +
                count_of(static_cast<std::size_t>(share.all), "tensor") + " at that step\n";
    return text;
}

/// The next command: it records all steps in which the difference may have arisen, if only some
/// steps were recorded.
std::string next_text(const FingerprintDifference& first) {
    const Index steps = first.step - first.after;
    return "  next     run it again and record " +
           (steps == 1 ? "that step" : "the " + std::to_string(steps) + " steps up to there") +
           " in full: truestep.torch.Recorder(optimizer, path=\"run.rank{rank}.safetensors\", start=" +
           std::to_string(first.after + 1) + ", steps=" + std::to_string(steps) +
           "), or sample=... of it; then truestep verify\n";
}

nlohmann::ordered_json json_of(const std::optional<FingerprintDifference>& difference) {
    if (!difference)
        return nullptr;
    nlohmann::ordered_json shares = nlohmann::ordered_json::object();
    for (const FingerprintDifference::Share& share : difference->shares)
        shares[share.result] = {{"others", share.others}, {"all", share.all}};
    return {{"step", difference->step},
            {"result", difference->result},
            {"tensor", difference->tensor},
            {"ranks", difference->ranks},
            {"shares", shares}};
}

} // namespace

RunFingerprints read_run(const std::vector<std::string>& paths) {
    RunFingerprints run;
    for (const std::string& path : paths)
        run.push_back(trace::read_prints(path));
    std::ranges::stable_sort(run, {}, &RankFingerprints::rank);
    for (std::size_t i = 1; i < run.size(); ++i) {
        if (run[i].rank == run[i - 1].rank)
            throw Error(run[i].path.string() + ": it is of rank " + std::to_string(run[i].rank) + ", as " +
                        run[i - 1].path.string() +
                        " is; give one file a rank, and another run's after --with");
        expect_one_run(run.front(), run[i]);
    }
    return run;
}

PrintsVerdict compare_prints(const RunFingerprints& run, const RunFingerprints& other) {
    PrintsVerdict verdict;
    const RankFingerprints& first = run.front();
    Index parameters = 0;
    for (const problem::Tensor& tensor : first.tensors)
        parameters += tensor.size;
    verdict.run = count_of(static_cast<std::size_t>(first.workers), "rank") + ", " +
                  count_of(first.steps.size(), "step") + ", " +
                  count_of(static_cast<std::size_t>(parameters), "parameter") + " in " +
                  count_of(first.tensors.size(), "tensor");
    note_ends(run, verdict);
    compare_ranks(run, verdict);
    verdict.has_other = !other.empty();
    if (verdict.has_other) {
        note_ends(other, verdict);
        compare_runs(run, other, verdict);
    }
    if (verdict.compared == 0)
        throw Error(
            first.path.string() +
            ": nothing can be compared; give the files of several ranks that hold something replicated, or "
            "another run after --with");
    return verdict;
}

std::string text_report(const PrintsVerdict& verdict) {
    std::string text = "  run      " + verdict.run + "\n";
    if (verdict.between_ranks)
        text += "  ranks    DIFFER, first at " + difference_text(*verdict.between_ranks);
    else if (!verdict.replicated.empty())
        text += "  ranks    the same on all of them: " + listed(verdict.replicated) + "\n";
    else
        text += "  ranks    not compared: one rank, or nothing replicated\n";
    if (verdict.has_other) {
        const std::string together =
            verdict.together > 0 ? "the same through step " + std::to_string(verdict.together) : "";
        if (verdict.between_runs)
            text += "  runs     " + together + (together.empty() ? "" : "; ") + "DIFFER first at " +
                    difference_text(*verdict.between_runs);
        else
            text += "  runs     " + together + "\n";
    }
    for (const std::string& note : verdict.notes)
        text += "  note: " + note + "\n";
    if (const auto& first = verdict.between_ranks ? verdict.between_ranks : verdict.between_runs; first)
        text += next_text(*first);
    return text + (verdict.same() ? "same: " : "different; compared: ") +
           count_of(static_cast<std::size_t>(verdict.compared), "fingerprint") + "\n";
}

nlohmann::ordered_json json_report(const PrintsVerdict& verdict) {
    return {
        {"run", verdict.run},
        {"same", verdict.same()},
        {"compared", verdict.compared},
        {"replicated", verdict.replicated},
        {"between_ranks", json_of(verdict.between_ranks)},
        {"together_through_step", verdict.has_other ? nlohmann::ordered_json(verdict.together) : nullptr},
        {"between_runs", json_of(verdict.between_runs)},
        {"notes", verdict.notes}};
}

} // namespace truestep::verify
