// Property 13 of section 8: a run that stops and restarts, and the same work split otherwise.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <truestep/gate/changed_setting.hpp>
#include <truestep/problem/settings.hpp>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

Action restart_with(const Case& run, int workers, bool other_partition) {
    Case moved = run;
    moved.workers = workers;
    if (other_partition)
        moved.partition = run.partition == problem::PartitionRule::by_shard
                              ? problem::PartitionRule::by_tensor
                              : problem::PartitionRule::by_shard;
    Action action;
    action.kind = Action::Kind::restart;
    action.problem = problem_of(moved);
    action.ranges = problem::ranges(action.problem->layout, workers, moved.partition);
    return action;
}

Action step_with(const Case& run, int workers, Index t) {
    Case moved = run;
    moved.workers = workers;
    Action action;
    action.gradients = gradients_of(moved, t);
    action.parts = parts_of(moved, t);
    action.buckets = cut_of(moved, t);
    action.learning_rate = learning_rate_of(run, t);
    return action;
}

namespace {

/// Gives all values of the step this magnitude, and what is 0 stays so.
void of_magnitude(float magnitude, Action& step) {
    const auto change = [magnitude](Gradients& gradients) {
        for (std::vector<float>& gradient : gradients)
            for (float& value : gradient)
                value = value == 0.0F ? 0.0F : std::copysign(magnitude, value);
    };
    change(step.gradients);
    std::ranges::for_each(step.parts, change);
}

void as_many_workers(Trial& trial) {
    const Case& run = trial.run();
    const Index stop = run.chosen_place % run.steps;
    trial.classify(stop > 0, "stopped on the way");
    // A restart cuts the exchange by ranges, whoever owned a segment. If the library adds in another order
    // for each owner, that changes sums.
    Case settled = run;
    settled.owners_in_turn =
        run.owners_in_turn && trial.implementation().level() == verify::LevelKind::exact;
    Scenario through = trial.steps();
    through.setup.problem = problem_of(settled);
    // Without momentum, and with values that e5m2 holds, the step before the restart sends zeros, after
    // which the scale stays.
    for (Index step = 0; step < stop && run.beta1 == 0.0; ++step)
        of_magnitude(step == stop - 1 ? 0.0F : 1.25F, through.actions[static_cast<std::size_t>(step)]);
    Scenario stopped = through;
    stopped.actions.insert(stopped.actions.begin() + stop, restart_with(settled, run.workers, false));
    const RunRecording& one = trial(through);
    const RunRecording& two = trial(stopped);
    for (std::size_t action = 0; action < two.after.size(); ++action) {
        if (static_cast<Index>(action) == stop)
            continue;
        trial.looks_at(action);
        const std::size_t same = static_cast<Index>(action) > stop ? action - 1 : action;
        for (std::size_t rank = 0; rank < one.after[same].views.size(); ++rank)
            trial.same_view(static_cast<Index>(same) + 1, static_cast<int>(rank),
                            one.after[same].views[rank], two.after[action].views[rank]);
    }
    for (std::size_t rank = 0; rank < one.coming.size(); ++rank)
        trial.same_mask("next_mask", run.steps, static_cast<int>(rank), one.coming[rank], two.coming[rank]);
}

void other_workers(Trial& trial) {
    const Case& run = trial.run();
    const int workers = run.other_workers;
    trial.classify(workers < run.workers, "fewer");
    trial.classify(workers > run.workers, "more");
    Scenario scenario = trial.steps();
    const std::vector<std::uint8_t> coming = trial(scenario).coming.front();
    const std::size_t restart = scenario.actions.size();
    scenario.actions.push_back(restart_with(run, workers, run.chosen_place % 2 == 1));
    scenario.actions.push_back(step_with(run, workers, run.steps + 1));
    const RunRecording& history = trial(scenario);
    const ActionRecording& was = history.after[restart - 1];
    const ActionRecording& is = history.after[restart];
    trial.expect(is.views.size() == static_cast<std::size_t>(workers),
                 "there are " + std::to_string(is.views.size()) + " ranks after the restart");
    bool anything = false;
    trial.looks_at(restart);
    for (std::size_t rank = 0; rank < is.views.size(); ++rank) {
        ObservedState expected = was.views.front();
        expected.residual = is.views[rank].residual;
        trial.same_view(run.steps, static_cast<int>(rank), expected, is.views[rank], false);
    }
    for (Index index = 0; index < run.size(); ++index) {
        const auto at = static_cast<std::size_t>(index);
        // The mean in the order of the ranks, with which every new rank starts.
        float mean = was.views.front().residual[at];
        for (std::size_t old = 1; old < was.views.size(); ++old)
            mean += was.views[old].residual[at];
        mean /= static_cast<float>(was.views.size());
        for (std::size_t rank = 0; rank < is.views.size(); ++rank) {
            const float expected = workers == run.workers ? was.views[rank].residual[at] : mean;
            anything = anything || expected != 0.0F;
            trial.expect_at(bits_of(is.views[rank].residual[at]) == bits_of(expected), run.steps, index,
                            workers == run.workers
                                ? "the restart changed the residual"
                                : "the residual after the restart is not the mean of those before it",
                            static_cast<int>(rank));
        }
    }
    trial.classify(anything, "residuals that are not zero");
    // The coming mask survives, too: the next step uses it.
    trial.looks_at(restart + 1);
    for (std::size_t rank = 0; rank < history.after.back().views.size(); ++rank)
        trial.same_mask("mask after the restart,", run.steps + 1, static_cast<int>(rank), coming,
                        history.after.back().views[rank].mask);
}

void other_settings(Trial& trial) {
    const Case& run = trial.run();
    Scenario scenario = trial.steps();
    const std::size_t restart = scenario.actions.size();
    scenario.actions.push_back(restart_with(run, run.workers, false));
    std::set<std::string> but{"norm", "decay_order"}; // one does not always matter, one is refused
    for (const auto& [what, why] : trial.implementation().unsupported())
        but.insert(what);
    const std::string changed =
        gate::change_one_setting(scenario.actions.back().problem->settings, run.seed, but);
    const RunRecording& ran = trial.failing(std::move(scenario));
    trial.expect(ran.after.size() <= restart,
                 "the checkpoint is of a run with another " + changed + ", and all begin again");
    for (std::size_t rank = 0; rank < ran.ended.size(); ++rank)
        trial.expect(
            ran.ended[rank].find(trial.implementation().names_differences() ? "other settings" : "") !=
                    std::string::npos &&
                !ran.ended[rank].empty(),
            "the checkpoint is of a run with another " + changed + ", and rank " + std::to_string(rank) +
                " does not say so: " + ran.ended[rank]);
}

/// The operating system's answer, since kernels are chosen by another one.
bool machine_has(const std::string& feature) {
    static const std::string flags = [] {
        std::ifstream file("/proc/cpuinfo");
        for (std::string line; std::getline(file, line);)
            if (line.starts_with("flags"))
                return line + " ";
        return std::string();
    }();
    return flags.find(" " + feature + " ") != std::string::npos;
}

/// If some variant runs on plain kernels, there must be one for each faster kind of kernel that the machine
/// supports.
bool has_the_kernels(const std::vector<std::string>& variants) {
    const auto has = [&](const std::string& kernels) {
        return std::ranges::any_of(variants, [&](const std::string& variant) {
            return variant.find(kernels + " kernels") != std::string::npos;
        });
    };
    const bool avx2 = machine_has("avx2") && machine_has("bmi1") && machine_has("popcnt");
    const bool avx512 = avx2 && machine_has("bmi2") && machine_has("avx512f") && machine_has("avx512vl") &&
                        machine_has("avx512bw") && machine_has("avx512dq");
    return !has("plain") || ((!avx2 || has("avx2")) && (!avx512 || has("avx512")));
}

void split_otherwise(Trial& trial) {
    trial.classify(has_the_kernels(trial.implementation().variants()), "all kernels of the machine");
    const Scenario scenario = trial.steps();
    const RunRecording& one = trial(scenario);
    const auto variants = trial.implementation().variants();
    for (std::size_t variant = 0; variant < variants.size(); ++variant) {
        Scenario again = scenario;
        again.setup.variant = variant;
        const RunRecording& two = trial(again);
        for (std::size_t step = 0; step < one.after.size(); ++step)
            for (std::size_t rank = 0; rank < one.after[step].views.size(); ++rank)
                trial.same_view(static_cast<Index>(step) + 1, static_cast<int>(rank),
                                one.after[step].views[rank], two.after[step].views[rank]);
        for (std::size_t rank = 0; rank < one.coming.size(); ++rank)
            trial.same_mask("next_mask", trial.run().steps, static_cast<int>(rank), one.coming[rank],
                            two.coming[rank]);
    }
}

/// Threads share work in chunks of 4096 coordinates, and drawn cases seldom have two. Here three threads
/// get one, two and two chunks, and unequal numbers of values on the mask.
Case more_than_a_chunk() {
    Case run;
    run.tensors = {{"a", 17'001, false}, {"b", 9, true}, {"c", 2'003, false}};
    run.workers = 2;
    run.density = 0.3;
    run.beta1 = 0.9;
    run.beta2 = 0.95;
    run.bias_correction = problem::BiasCorrection::adam;
    run.clip_norm = 1.0;
    run.payload = problem::Payload::bf16;
    run.data = problem::DataClass::normal;
    run.parts = 2;
    run.bucket_bytes = 20'000;
    run.steps = 3;
    run.chosen_place = 3 * (run.workers - 1);
    return run;
}

/// The step before the restart sends zeros.
Case scaled_over_zeros() {
    Case run;
    run.tensors = {{"a", 5, false}};
    run.workers = 2;
    run.beta1 = 0.0;
    run.payload = problem::Payload::e5m2;
    run.steps = 4;
    run.chosen_place = 2;
    return run;
}

/// More blocks of the norm than 32, the threads of a device's smallest block, in the version that adds them
/// one after another.
Case more_norm_blocks_than_threads() {
    Case run;
    run.tensors = {{"a", 140'003, false}};
    run.clip_norm = 1.0;
    run.norm = problem::NormVersion::ascending;
    run.data = problem::DataClass::normal;
    return run;
}

} // namespace

std::vector<Property> restart_properties() {
    return {
        {13,
         "restart.same",
         "A checkpoint and a restart with as many ranks equal never having stopped.",
         any_case,
         as_many_workers,
         usual_demands(),
         only_scape,
         [](Case&) {},
         {scaled_over_zeros()}},
        {13, "restart.settings", "A checkpoint of a run with other settings is refused on all ranks.",
         any_case, other_settings, usual_demands(),
         [](const Implementation& implementation) {
             if (implementation.communicator() == "program")
                 return std::string("a program is given settings that all ranks have alike");
             const std::string why = cannot_differ(implementation);
             return why.empty() ? only_scape(implementation) : why;
         }},
        {13, "restart.other",
         "With another number of ranks each starts with the mean residual; w, m and the coming mask go on.",
         any_case, other_workers, usual_demands({"residuals that are not zero", "fewer", "more"}),
         only_scape},
        {13,
         "rerun",
         "The same run again, and with other threads, kernels and buffers, gives the same bits.",
         any_case,
         split_otherwise,
         usual_demands({"all kernels of the machine"}),
         [](const Implementation&) { return std::string(); },
         [](Case&) {},
         {more_than_a_chunk(), more_norm_blocks_than_threads()}},
    };
}

} // namespace truestep::properties::scape
