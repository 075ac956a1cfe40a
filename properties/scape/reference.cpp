// What the other properties cannot say: that every bit, or every value within its bound, is the
// reference's.
#include <array>
#include <filesystem>

#include <unistd.h>

#include <scape/properties/implementations.hpp>
#include <scape/properties/recording.hpp>
#include <scape/verify/verify_trace.hpp>

#include "generators.hpp"
#include "support.hpp"

namespace scape::properties {

namespace {

/// Unique among all that share a file system.
std::string process_name() {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    return std::string(host.data()) + "_" + std::to_string(getpid());
}

void within_the_bound(Trial& trial, const Ran& ran) {
    // By the checker of traces: the bound is its own. Each process has its own file.
    static const std::shared_ptr<const Group> here = make_thread_group(std::chrono::seconds(60));
    const std::filesystem::path path =
        std::filesystem::path(scratch_folder(*here)) / ("rel_" + process_name() + ".safetensors");
    if (!save_trace(path, ran, "gate"))
        throw Violation("there is no step to compare");
    verify::VerifyOptions options;
    // A bound on a free run grows with every step until it proves nothing; one step's does not.
    options.from = verify::From::recorded;
    options.level = verify::Level::rel();
    const auto verdict = verify::verify_trace(path, options);
    const verify::Row all = verify::total(verdict.rows);
    trial.count({all.compared, all.mismatched, all.greatest_ulps, all.share_of_limit});
    if (verdict.first)
        throw Violation("step " + std::to_string(verdict.first->step) + ", " + verdict.first->result +
                            (verdict.first->between_ranks
                                 ? " is not the same on all ranks"
                                 : " is further from the reference than its bound"),
                        *verdict.first);
}

void equals_the_reference(Trial& trial) {
    classify(trial);
    const Scenario scenario = trial.steps();
    const bool exact = trial.implementation().level() == verify::LevelKind::exact;
    const History& actual = trial.tolerant(scenario);
    if (exact)
        same_history(trial, scenario, reference_implementation()->run(scenario), actual);
    else
        within_the_bound(trial, trial.runs().back());
}

std::string not_itself(const Implementation& implementation) {
    return implementation.name() == "reference" ? "it would be compared with itself" : "";
}

/// Beyond every tile, block and chunk of an implementation, with ties over their edges, where a small case
/// never goes.
std::vector<Case> beyond_every_block() {
    using problem::DataClass;
    struct Kind {
        DataClass data;
        double density;
        double clip_norm;
        int workers;
        problem::PartitionRule partition;
    };
    constexpr auto by_shard = problem::PartitionRule::by_shard;
    constexpr auto by_tensor = problem::PartitionRule::by_tensor;
    std::vector<Case> all;
    for (const Kind& kind :
         {Kind{DataClass::normal, 1.0, 0.0, 3, by_shard}, Kind{DataClass::normal, 0.1, 1.0, 2, by_tensor},
          Kind{DataClass::normal, 0.01, 0.0, 1, by_shard}, Kind{DataClass::ties, 0.1, 0.0, 3, by_shard},
          Kind{DataClass::ties, 0.01, 0.0, 1, by_shard}, Kind{DataClass::dyadic, 0.01, 0.0, 2, by_shard},
          Kind{DataClass::sparse, 0.1, 0.5, 1, by_shard}, Kind{DataClass::wide, 0.1, 0.0, 2, by_shard}}) {
        Case run;
        run.tensors = {{"a", 61'003, false}, {"b", 9, true}, {"c", 38'988, false}};
        run.workers = kind.workers;
        run.partition = kind.partition;
        run.density = kind.density;
        run.clip_norm = kind.clip_norm;
        run.data = kind.data;
        run.beta1 = 0.9;
        run.beta2 = 0.95;
        run.weight_decay = 0.1;
        run.bias_correction = problem::BiasCorrection::adam;
        run.steps = 3;
        run.seed = all.size();
        // Where numbers of ranks are pinned, the place chooses among them: again this many, if it is there.
        run.chosen_place = 3 * (kind.workers - 1);
        all.push_back(run);
    }
    return all;
}

/// More steps than a counter of 8 bits has, with a correction that still says so.
Case many_steps() {
    Case run;
    run.tensors = {{"a", 5, false}, {"b", 2, true}};
    run.workers = 2;
    run.density = 0.4;
    run.schedule = DensityRule::jumps;
    run.beta1 = 0.9;
    run.beta2 = 0.9995;
    run.weight_decay = 0.1;
    run.bias_correction = problem::BiasCorrection::adam;
    run.data = problem::DataClass::normal;
    run.steps = 300;
    run.chosen_place = 3 * (run.workers - 1);
    return run;
}

std::vector<Case> beside_the_drawn() {
    std::vector<Case> all = beyond_every_block();
    all.push_back(many_steps());
    return all;
}

} // namespace

std::vector<Property> reference_properties() {
    auto demands = usual_demands();
    demands.insert({{"more than 8 ranks", 3},
                    {"fewer parameters than ranks", 2},
                    {"the learning rate changes", 40},
                    {"the density rises", 15},
                    {"an epsilon of another size", 30}});
    return {{0, "reference", "Every bit is the reference's (at REL: every value within its bound).",
             any_case, equals_the_reference, demands, not_itself, [](Case&) {}, beside_the_drawn()}};
}

} // namespace scape::properties
