// Makes the finding on a case of averaging, and draws each worker's values beside the reference's.
#include "difference.hpp"

#include <utility>

#include <truestep/reference/averaging/reference.hpp>

namespace truestep::properties::averaging {

namespace {

/// Draws what all workers begin the round with, then the gradients of each, and what each ends with. No
/// rank owns a part of the parameters.
gate::Drawing drawing_of(const Case& run, const std::vector<RankRecording>& seen, Index last) {
    gate::Drawing drawing{"round " + std::to_string(last + 1), run.size, static_cast<int>(run.workers)};
    drawing.tensors = {{"x", 0, run.size}};
    reference::averaging::Vector begin;
    reference::averaging::Vector end = parameters_of(run);
    std::vector<reference::averaging::Gradients> gradients;
    for (Index round = 0; round <= last; ++round) {
        begin = end;
        gradients.clear();
        for (int worker = 0; worker < run.workers; ++worker)
            gradients.push_back(gradients_of(run, worker, round));
        end = reference::averaging::after_round(begin, gradients, learning_rate_of(run));
    }
    gate::Lane before{"before", "the parameters at the round's begin"};
    before.shared = true;
    before.values = {gate::texts(begin)};
    drawing.lanes.push_back(before);
    for (std::size_t step = 0; step < static_cast<std::size_t>(run.local_steps); ++step) {
        gate::Lane lane{"gradient " + std::to_string(step + 1), ""};
        for (const reference::averaging::Gradients& of_worker : gradients)
            lane.values.push_back(gate::texts(of_worker[step]));
        drawing.lanes.push_back(lane);
    }
    gate::Lane after{"after", "the parameters at its end"};
    for (const RankRecording& of_rank : seen)
        after.values.push_back(gate::texts(of_rank.after[static_cast<std::size_t>(last)]));
    after.expected.assign(after.values.size(), gate::texts(end));
    drawing.lanes.push_back(after);
    return drawing;
}

} // namespace

std::shared_ptr<const gate::Finding> difference(std::string message, std::string details, const Case& run,
                                                std::vector<RankRecording> seen, Index round) {
    return std::make_shared<gate::PhrasedFinding>(
        std::move(message), std::move(details),
        gate::Finding::Size{run.size, static_cast<int>(run.workers), run.rounds * run.local_steps},
        [run, seen = std::move(seen), round] { return drawing_of(run, seen, round); });
}

} // namespace truestep::properties::averaging
