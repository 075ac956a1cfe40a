// Properties of refused steps, restarts, copies, refusals and deaths.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "trial.hpp"

namespace truestep::properties::dense {

namespace {

// 8. Masters are those of a run without copies, and copies are the nearest numbers of bf16.
void masters(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    Scenario without = trial.scenario;
    without.problem.copies = without.after.copies = Copies::none;
    const std::vector<RankRecord> others = trial.completed(without);
    for (Index step = 1; step <= trial.scenario.steps; ++step) {
        const Whole whole = trial.whole(all, step);
        trial.same(trial.whole(others, step), whole, step, "those of a run without copies");
        const Floats& copies = all[0].steps.at(step).parameters;
        for (std::size_t i = 0; i < copies.size(); ++i) {
            const auto bits = std::bit_cast<std::uint32_t>(copies[i]);
            // The next numbers of bf16 on both sides lie no nearer.
            const auto from = [&](std::uint32_t other) {
                return std::abs(static_cast<double>(std::bit_cast<float>(other)) -
                                static_cast<double>(whole.w[i]));
            };
            const bool nearest = (bits & 0xffffU) == 0 && from(bits) <= from(bits + 0x10000U) &&
                                 ((bits & 0x7fff'ffffU) == 0 || from(bits) <= from(bits - 0x10000U));
            trial.expect(nearest, step,
                         trial.layout().describe(static_cast<Index>(i)) + " of the copies after step " +
                             std::to_string(step) + " is not the nearest number of bf16");
        }
    }
}

Case with_copies(Case run) {
    run.copies = Copies::bf16;
    run.steps = std::max<Index>(2, run.steps);
    return run;
}

// 10. A step that is refused changes nothing on any rank, and does not count.
void refused(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    const Index bad = trial.run_case.refused;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        for (Index step = 1; step <= trial.scenario.steps; ++step)
            trial.expect((all[rank].steps.at(step).refused == 1) == (step == bad), step,
                         "rank " + std::to_string(rank) +
                             (step == bad ? " did not refuse step " : " refused step ") +
                             std::to_string(step));
    trial.same(trial.whole(all, bad - 1), trial.whole(all, bad), bad, "those before the refused step");
    Scenario without = trial.scenario;
    without.steps -= 1;
    without.gradient = [bad, gradient = trial.scenario.gradient](const Problem& problem, Index micro_batch,
                                                                 Index step) {
        return gradient(problem, micro_batch, step < bad ? step : step + 1);
    };
    without.rates = [bad, rates = trial.scenario.rates](Index step) {
        return rates(step < bad ? step : step + 1);
    };
    const std::vector<RankRecord> others = trial.completed(without);
    const Index last = trial.scenario.steps;
    trial.same(trial.whole(others, last - 1), trial.whole(all, last), last,
               "those of a run without the refused step");
}

Case with_refusal(Case run) {
    run.restart = 0;
    run.to = 0;
    run.steps = std::max<Index>(2, run.steps);
    run.refused = 1 + run.seed % run.steps;
    return run;
}

// 7. A restart changes no bit of the state, whatever the number of ranks, and none of the run if it stays.
void restart(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    const Index at = trial.scenario.restart;
    trial.same(trial.whole(all, at), trial.whole(all, at, true), at, "those before the restart");
    if (trial.scenario.after.ranks != trial.scenario.problem.ranks)
        return;
    Scenario going_on = trial.scenario;
    going_on.restart = 0;
    trial.same(trial.completed(going_on, false), all, "those of a run without a restart");
}

Case restarted(Case run) {
    run.steps = std::max<Index>(2, run.steps);
    run.restart = 1 + run.seed % (run.steps - 1);
    run.to = 0;
    return run;
}

Case restarted_with_others(Case run) {
    run = restarted(run);
    run.to = run.workers > 2 || run.workers == 1 ? 2 : 1;
    return run;
}

void other_restart(Trial& trial) {
    if (trial.takes(trial.scenario.after.ranks))
        restart(trial);
}

/// Expects that no rank begins again, and that each says why in one line that holds all `words`.
void none_begins_again(Trial& trial, const Scenario& scenario, const std::vector<std::string>& words,
                       const std::string& why) {
    const std::vector<RankRecord> all = trial.run(scenario);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const std::string who = "rank " + std::to_string(rank);
        const std::string& ended = all[rank].ended;
        trial.expect(all[rank].restarted.empty(), scenario.restart, who + " begins again, although " + why);
        for (const std::string& word : words)
            trial.expect(ended.find(word) != std::string::npos && ended.find('\n') == std::string::npos,
                         scenario.restart,
                         who + " does not say in one line with '" + word + "' that " + why + ": " + ended);
    }
}

// 7. A checkpoint in which one file is of another run, or of this one's step before, is refused on all
// ranks.
void strange_file(Trial& trial) {
    Scenario scenario = trial.scenario;
    scenario.strange_rank = static_cast<int>(trial.run_case.seed % scenario.problem.ranks);
    scenario.is_older = trial.run_case.seed / 16 % 2 == 0;
    const std::string other = scenario.is_older ? "step" : "another run";
    none_begins_again(trial, scenario, {other},
                      "the file of rank " + std::to_string(scenario.strange_rank) + " is of " +
                          (scenario.is_older ? "the step before" : other));
}

// 7. A checkpoint of a run with another setting is refused on all ranks. Micro-batches may change.
void other_settings(Trial& trial) {
    Scenario scenario = trial.scenario;
    auto changes = changes_of(scenario.after);
    std::erase_if(changes, [](const auto& one) { return one.first == "micro_batches"; });
    const auto& [key, apply] = changes[static_cast<std::size_t>(trial.run_case.seed) % changes.size()];
    apply(scenario.after);
    none_begins_again(trial, scenario, {key}, "the checkpoint is of a run with another " + key);
}

// 15. A state that is not finite ends all ranks before the first step.
void spoiled_state(Trial& trial) {
    Scenario scenario = trial.scenario;
    scenario.change = [](int, Beginning& beginning) { beginning.spoiled = !beginning.folder.empty(); };
    none_begins_again(trial, scenario, {"finite"}, "a first moment is not finite");
}
Case restarted_with_momentum(Case run) {
    run = restarted(run);
    run.rule = Rule::adamw;
    run.groups = Dealing::one; // a mixed one has rules without momentum
    return run;
}

// 14. Ranks that begin again from different steps are told so.
void stale_rank(Trial& trial) {
    Scenario scenario = trial.scenario;
    scenario.stale_rank = static_cast<int>(1 + trial.run_case.seed % (scenario.after.ranks - 1));
    const std::string name = "rank " + std::to_string(scenario.stale_rank);
    none_begins_again(trial, scenario, {name, "step"}, name + " has the checkpoint of the step before");
}

Case restarted_by_many(Case run) {
    run = restarted(run);
    run.workers = std::max<Index>(2, run.workers);
    run.refused = 0;
    return run;
}

// 15. A rank that fails ends all ranks, and they name it.
void fault(Trial& trial) {
    Scenario scenario = trial.scenario;
    const Index seed = trial.run_case.seed;
    scenario.failing_rank = static_cast<int>(seed % scenario.problem.ranks);
    scenario.failing_step = 1 + seed % scenario.steps;
    scenario.exchanges = seed % 4;
    const std::vector<RankRecord> all = trial.run(scenario);
    const bool came = all[static_cast<std::size_t>(scenario.failing_rank)].failed == 1;
    trial.kind(came, "a link was cut");
    const std::string name = "rank " + std::to_string(scenario.failing_rank);
    for (int rank = 0; came && rank < scenario.problem.ranks; ++rank) {
        const std::string& ended = all[static_cast<std::size_t>(rank)].ended;
        trial.expect(!ended.empty(), scenario.failing_step,
                     name + "'s link was cut, and rank " + std::to_string(rank) + " continued");
        trial.expect(
            ended.empty() || rank == scenario.failing_rank || ended.find(name) != std::string::npos,
            scenario.failing_step,
            name + "'s link was cut, and rank " + std::to_string(rank) + " does not name it: " + ended);
    }
}

/// The run in which all coordinates turn non-finite in its first step, or one of them in a later step: only
/// that one has a gradient, and it begins at the greatest number of bf16.
Scenario that_overflows(Scenario scenario, Index seed, Index step) {
    const std::size_t groups = scenario.problem.groups.size();
    if (seed % 3 == 0) {
        scenario.rates = [groups](Index) { return std::vector<double>(groups, 1e300); };
        return scenario;
    }
    constexpr float greatest = 0x1.fep127F;
    constexpr double enough = 0x1p126; // even where epsilon leaves a hundredth of a step
    const std::size_t at = static_cast<std::size_t>(seed) * 7919 % scenario.start.size();
    scenario.start[at] = greatest;
    scenario.gradient = [at, size = scenario.start.size()](const Problem&, Index, Index) {
        Floats values(size, 0.0F);
        values[at] = -1.0F;
        return values;
    };
    scenario.rates = [groups, step](Index now) {
        return std::vector<double>(groups, now == step ? enough : 0.0);
    };
    return scenario;
}

// A state that is not finite ends all ranks at that step.
void halt(Trial& trial) {
    const Index seed = trial.run_case.seed;
    const Index step = seed % 3 == 0 ? 1 : 1 + seed % trial.scenario.steps;
    const Scenario scenario = that_overflows(trial.scenario, seed, step);
    trial.kind(seed % 3 != 0, "one coordinate overflows");
    const std::vector<RankRecord> all = trial.run(scenario);
    for (int rank = 0; rank < scenario.problem.ranks; ++rank) {
        const RankRecord& record = all[static_cast<std::size_t>(rank)];
        trial.expect(record.halted == 1 && !record.steps.contains(step), step,
                     "rank " + std::to_string(rank) + " continues with a state that is not finite");
        trial.expect(step == 1 || record.steps.contains(step - 1), step - 1,
                     "rank " + std::to_string(rank) + " does not end a step before: " + record.ended);
    }
}

Case without_decay(Case run) {
    run = uninterrupted(with_several_ranks(run));
    run.decay = 0.0;
    run.groups = Dealing::one;
    return run;
}

gate::Property of_threads(gate::Property property) {
    property.skipped = [](const gate::Implementation& implementation) {
        return std::string(
            implementation.communicator() == "mpi" ? "its ranks are processes, which a failure ends" : "");
    };
    return property;
}

} // namespace

std::vector<gate::Property> interruption_properties() {
    return {property(8, "masters",
                     "Copies are the nearest of bf16, and masters those of a run without them.", masters,
                     {{"copies", 95}, {"restart", 15}}, with_copies),
            property(10, "refused", "A step with a gradient that is refused changes nothing on any rank.",
                     refused, {{"refused", 95}, "momentum"}, with_refusal),
            property(7, "restart.same", "A restart on as many ranks changes no bit.", restart, {"restart"},
                     restarted),
            property(7, "restart.other", "A restart on other ranks changes no bit of the state.",
                     other_restart, {"other number of ranks"}, restarted_with_others),
            property(7, "restart.strange",
                     "A checkpoint with a file of another run or step is refused on all ranks.",
                     strange_file, {"restart", {"several ranks", 95}}, restarted_by_many),
            property(7, "restart.settings", "A checkpoint of other settings is refused on all ranks.",
                     other_settings, {"restart"}, restarted),
            property(15, "restart.spoiled", "A state that is not finite does not begin again.",
                     spoiled_state, {"restart"}, restarted_with_momentum),
            property(14, "restart.stale", "Ranks that begin again from different steps refuse to.",
                     stale_rank, {"restart", {"several ranks", 95}}, restarted_by_many),
            of_threads(property(15, "fault", "A rank whose link is cut ends all ranks, and they name it.",
                                fault, {"a link was cut"}, with_several_ranks)),
            property(15, "halt", "A state that is not finite ends all ranks at once.", halt,
                     {{"several ranks", 95}, "one coordinate overflows"}, without_decay)};
}

} // namespace truestep::properties::dense
