// Makes the finding on a case of averaging, and draws each worker's values beside the reference's.
#include "difference.hpp"

#include <utility>

#include <truestep/reference/averaging/reference.hpp>

namespace truestep::properties::averaging {

namespace {

class Difference final : public gate::PhrasedFinding {
  public:
    Difference(std::string message, std::string details, const Case& run, std::vector<RankRecording> seen,
               Index round)
        : PhrasedFinding(std::move(message), std::move(details),
                         {run.size, static_cast<int>(run.workers), run.rounds * run.local_steps}),
          run_(run), seen_(std::move(seen)), round_(round) {}

    std::optional<gate::Drawing> drawing() const override;

  private:
    Case run_;
    std::vector<RankRecording> seen_;
    Index round_;
};

/// Draws what all workers begin the round with, then the gradients of each, and what each ends with. No
/// rank owns a part of the parameters.
std::optional<gate::Drawing> Difference::drawing() const {
    gate::Drawing drawing{"round " + std::to_string(round_ + 1), run_.size, static_cast<int>(run_.workers)};
    drawing.tensors = {{"x", 0, run_.size}};
    reference::averaging::Vector begin;
    reference::averaging::Vector end = parameters_of(run_);
    std::vector<reference::averaging::Gradients> gradients;
    for (Index round = 0; round <= round_; ++round) {
        begin = end;
        gradients.clear();
        for (int worker = 0; worker < run_.workers; ++worker)
            gradients.push_back(gradients_of(run_, worker, round));
        end = reference::averaging::after_round(begin, gradients, learning_rate_of(run_));
    }
    gate::Lane before{"before", "the parameters at the round's begin"};
    before.shared = true;
    before.values = {gate::texts(begin)};
    drawing.lanes.push_back(before);
    for (std::size_t step = 0; step < static_cast<std::size_t>(run_.local_steps); ++step) {
        gate::Lane lane{"gradient " + std::to_string(step + 1), ""};
        for (const reference::averaging::Gradients& of_worker : gradients)
            lane.values.push_back(gate::texts(of_worker[step]));
        drawing.lanes.push_back(lane);
    }
    gate::Lane after{"after", "the parameters at its end"};
    for (const RankRecording& seen : seen_)
        after.values.push_back(gate::texts(seen.after[static_cast<std::size_t>(round_)]));
    after.expected.assign(after.values.size(), gate::texts(end));
    drawing.lanes.push_back(after);
    return drawing;
}

} // namespace

std::shared_ptr<const gate::Finding> difference(std::string message, std::string details, const Case& run,
                                                std::vector<RankRecording> seen, Index round) {
    return std::make_shared<Difference>(std::move(message), std::move(details), run, std::move(seen),
                                        round);
}

} // namespace truestep::properties::averaging
