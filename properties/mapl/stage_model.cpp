// The model that the replicas of a stage train together.
#include <utility>

#include "end_factory.hpp"

namespace truestep::properties::mapl {

StageModel stage_model(const Scenario& scenario, int stage, Index own, bool masks_shared_tables) {
    const Case& run = scenario.run;
    std::vector<problem::Tensor> tensors{{"stage", own}};
    if (run.anchors == Anchors::shared || run.anchors == Anchors::two) {
        // Both sides of a boundary train a shared table, each with different other tensors. They get the
        // same bits only if every coordinate is sent at every step.
        const bool dense = run.anchors == Anchors::shared && !masks_shared_tables;
        const Index table = run.vocabulary * run.rank;
        if (stage + 1 < scenario.workers())
            tensors.push_back({"senders_anchor", table, dense});
        if (stage > 0)
            tensors.push_back({"receivers_anchor", table, dense});
    }
    problem::Layout layout(std::move(tensors));
    const auto replicas = static_cast<int>(run.replicas);
    std::vector<problem::Range> ranges =
        problem::ranges(layout, replicas, problem::PartitionRule::by_shard);
    return {problem::make_problem(run.trainer == Trainer::scape ? problem::Algorithm::scape
                                                                : problem::Algorithm::adams,
                                  replicas, std::move(layout), problem::PartitionRule::by_shard, {}),
            std::move(ranges), problem::DensitySchedule::constant(0.4)};
}

} // namespace truestep::properties::mapl
