// Properties of sharding: who owns what, on how many ranks, in how many micro-batches, changes no bit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trial.hpp"

namespace truestep::properties::dense {

namespace {

Case without_interruption(Case run) {
    run.restart = 0;
    run.to = 0;
    return run;
}

Case on_several(Case run) {
    run = without_interruption(run);
    run.workers = std::max<Index>(2, run.workers);
    return run;
}

// 1. All ranks see the same parameters.
void replicas(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    for (Index step = 1; step <= trial.scenario.steps; ++step)
        for (int rank = 1; rank < trial.scenario.at(step).ranks; ++rank)
            trial.same(all[0].steps.at(step).parameters,
                       all[static_cast<std::size_t>(rank)].steps.at(step).parameters, step,
                       "the parameters of rank " + std::to_string(rank), "rank 0's");
}

// 1. Each coordinate has one owner, a matrix of Muon one for all, and that changes no bit.
void shards(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    const Problem& problem = trial.scenario.problem;
    const Whole whole = trial.whole(all, trial.scenario.steps);
    for (std::size_t i = 0; i < whole.owners.size(); ++i)
        trial.expect(whole.owners[i] == 1, trial.scenario.steps,
                     trial.layout().describe(static_cast<Index>(i)) + " has " +
                         std::to_string(whole.owners[i]) + " owners in place of one");
    for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor)
        for (std::size_t rank = 0; rank < all.size() && is_muon(problem, tensor); ++rank)
            for (const auto& [begin, end] : all[rank].steps.at(trial.scenario.steps).shard.pieces)
                trial.expect(
                    end <= trial.layout().begin(tensor) || begin >= trial.layout().end(tensor) ||
                        (begin <= trial.layout().begin(tensor) && end >= trial.layout().end(tensor)),
                    trial.scenario.steps,
                    "rank " + std::to_string(rank) + " owns a piece of the matrix " +
                        problem.tensors[tensor].name + ", which Muon takes as a whole");
    Scenario everywhere = trial.scenario;
    everywhere.sharded = false;
    trial.same(trial.completed(everywhere), all, "those of ranks that own everything");
}

Case sharded(Case run) {
    run = on_several(run);
    run.sharded = 1;
    return run;
}

// 2. With order tree the same micro-batches on another number of ranks make the same bits.
void world(Trial& trial) {
    const Problem& problem = trial.scenario.problem;
    const Index all = micro_batches_of(problem);
    const std::vector<RankRecord> here = trial.completed(trial.scenario);
    for (int ranks = 1; ranks <= 8 && ranks <= all; ranks *= 2) {
        Scenario other = trial.scenario;
        other.problem.ranks = ranks;
        other.problem.micro_batches.assign(static_cast<std::size_t>(ranks), static_cast<int>(all / ranks));
        if (ranks == problem.ranks || !trial.takes(ranks))
            continue;
        trial.same(trial.completed(other), here, "those of " + std::to_string(ranks) + " ranks");
    }
}

Case on_powers_in_tree(Case run) {
    run = without_interruption(run);
    run.order = Order::tree;
    run.accumulation = Accumulation::mean;
    run.uneven = 0;
    run.workers = run.workers >= 4 ? 4 : run.workers >= 2 ? 2 : 1;
    run.micro = run.micro >= 4 ? 4 : run.micro >= 2 ? 2 : 1;
    return run;
}

// 3. A rank's micro-batches are one with their mean, where that is exact.
void micro_batches(Trial& trial) {
    Scenario one = trial.scenario;
    const int count = one.problem.micro_batches.front();
    std::ranges::fill(one.problem.micro_batches, 1);
    one.gradient = [count, scenario = trial.scenario](const Problem&, Index rank, Index step) {
        Floats mean(static_cast<std::size_t>(layout_of(scenario.problem).size()), -0.0F);
        for (Index i = 0; i < count; ++i) {
            const Floats next = scenario.gradient(scenario.problem, rank * count + i, step);
            for (std::size_t at = 0; at < mean.size(); ++at) // a step that one refuses, their mean refuses
                mean[at] +=
                    std::abs(next[at]) <= 0x1p56F ? next[at] : std::numeric_limits<float>::infinity();
        }
        for (float& value : mean)
            value /= scenario.problem.accumulation == Accumulation::mean ? static_cast<float>(count) : 1.0F;
        return mean;
    };
    trial.same_as(one, "those of one micro-batch with their mean");
}

Case several_exact(Case run) {
    run = without_interruption(run);
    run.micro = run.micro > 2 ? 4 : 2;
    run.uneven = 0;
    run.data = DataClass::dyadic;
    return run;
}

// 13. A rank sends each owner its part once a step, and its own parameters once.
void traffic(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    for (Index step = 1; step <= trial.scenario.steps; ++step) {
        const Problem& problem = trial.scenario.at(step);
        const std::uint64_t width = problem.copies == Copies::bf16 ? 2 : 4;
        for (int rank = 0; rank < problem.ranks; ++rank) {
            const StepRecord& record = all[static_cast<std::size_t>(rank)].steps.at(step);
            std::uint64_t gradients = 0;
            for (int other = 0; other < problem.ranks; ++other)
                if (other != rank)
                    gradients += 4 * all[static_cast<std::size_t>(other)].steps.at(step).shard.w.size();
            const auto others = static_cast<std::uint64_t>(problem.ranks - 1);
            const std::uint64_t parameters =
                trial.scenario.sharded ? width * record.shard.w.size() * others : 0;
            const bool taken = record.refused == 0;
            const auto expect = [&](std::uint64_t sent, std::uint64_t right, const char* what) {
                trial.expect(sent == (taken ? right : 0), step,
                             "rank " + std::to_string(rank) + " sent " + std::to_string(sent) +
                                 " bytes of " + what + " in step " + std::to_string(step) +
                                 "; the owners need " + std::to_string(taken ? right : 0));
            };
            expect(record.gradients_sent, gradients, "gradients");
            expect(record.parameters_sent, parameters, "parameters");
        }
    }
}

// Threads and the order in which messages arrive change no bit.
void rerun(Trial& trial) {
    Scenario quiet = trial.scenario;
    quiet.threads = 1;
    quiet.late = 0;
    trial.same_as(quiet, "those of one thread and quiet messages");
}

Case disturbed(Case run) {
    run = on_several(run);
    run.threads = 1 + run.seed % 3;
    run.late = 1 + run.seed % 4;
    return run;
}

} // namespace

std::vector<gate::Property> sharding_properties() {
    return {property(1, "replicas", "After each step all ranks see the same parameters.", replicas,
                     {"several ranks", "copies"}),
            property(1, "shards",
                     "Each coordinate has one owner, a matrix of Muon one for all; no bit changes.", shards,
                     {"sharded", "muon", "several tensors"}, sharded),
            property(2, "world", "With order tree no bit changes on 1, 2, 4 or 8 ranks.", world,
                     {{"several ranks", 50}, {"micro-batches", 40}, "muon"}, on_powers_in_tree),
            property(3, "micro_batches",
                     "A rank's micro-batches are one with their mean, where it is exact.", micro_batches,
                     {{"micro-batches", 90}, "muon"}, several_exact),
            property(13, "traffic", "A rank sends each owner its part once, and its own parameters once.",
                     traffic, {{"several ranks", 80}, "copies"}, on_several),
            property(2, "rerun", "Threads and late messages change no bit.", rerun, {"threads", "late"},
                     disturbed)};
}

} // namespace truestep::properties::dense
