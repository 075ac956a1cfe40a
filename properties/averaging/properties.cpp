// What must always hold of local SGD with averaging (section 11).
#include <numeric>

#include "averaging.hpp"

namespace truestep::properties::averaging {

namespace {

/// The parameters after each round, by the reference.
std::vector<Vector> right_parameters(const Case& run) {
    std::vector<Vector> all;
    for (Index round = 0; round < run.rounds; ++round) {
        std::vector<Gradients> gradients;
        for (int worker = 0; worker < run.workers; ++worker)
            gradients.push_back(gradients_of(run, worker, round));
        all.push_back(reference::averaging::after_round(round == 0 ? parameters_of(run) : all.back(),
                                                        gradients, learning_rate_of(run)));
    }
    return all;
}

/// Draws what all workers begin a round with, then the gradients of each, and what each ends with. No rank
/// owns a part of the parameters.
gate::Drawing drawing_of(const Case& run, const std::vector<gate::ShownByRank>& seen, Index round) {
    const auto at = static_cast<std::size_t>(round);
    const std::vector<Vector> right = right_parameters(run);
    gate::Drawing drawing{"round " + std::to_string(round + 1), run.size, static_cast<int>(run.workers)};
    drawing.tensors = {{"x", 0, run.size}};
    drawing.lanes = {{"before", "the parameters at the round's begin"}};
    drawing.lanes.front().shared = true;
    drawing.lanes.front().values = {gate::texts(round == 0 ? parameters_of(run) : right[at - 1])};
    for (Index step = 1; step <= run.local_steps; ++step)
        drawing.lanes.push_back({"gradient " + std::to_string(step), ""});
    for (int worker = 0; worker < run.workers; ++worker) {
        std::size_t lane = 0;
        for (const Vector& gradient : gradients_of(run, worker, round))
            drawing.lanes[++lane].values.push_back(gate::texts(gradient));
    }
    gate::Lane after{"after", "the parameters at its end"};
    for (const gate::ShownByRank& of_rank : seen) {
        after.values.push_back(gate::texts(of_rank.after[at]));
        after.expected.push_back(gate::texts(right[at]));
    }
    drawing.lanes.push_back(after);
    return drawing;
}

/// One case under judgement.
class Trial : public gate::PlayedTrial<Case> {
  public:
    Trial(const gate::Implementation& implementation, const Case& judged_case)
        : PlayedTrial(implementation, judged_case, {{"x", judged_case.size}},
                      static_cast<int>(judged_case.workers), judged_case.rounds) {}

  protected:
    gate::Finding::Size size(Index /*round*/) const override {
        return {run.size, static_cast<int>(run.workers), run.rounds * run.local_steps};
    }
    gate::FindingOnDemand on_demand(Index round) const override {
        return {.draw = [run = run, seen = seen, round] { return drawing_of(run, seen, round); }};
    }
};

void replicas(Trial& trial) {
    trial.compare(trial.seen.front().after, "rank 0's", 1);
}

void alone(Trial& trial) {
    std::vector<Vector> plain;
    Vector x = parameters_of(trial.run);
    for (Index round = 0; round < trial.run.rounds; ++round) {
        for (const Vector& gradient : gradients_of(trial.run, 0, round))
            for (std::size_t i = 0; i < x.size(); ++i)
                x[i] -= learning_rate_of(trial.run) * gradient[i];
        plain.push_back(x);
    }
    trial.compare(plain, "those of plain SGD");
}

void traffic(Trial& trial) {
    const Case& run = trial.run;
    const auto expected = static_cast<std::uint64_t>(run.rounds * 4 * run.size * (run.workers - 1));
    for (std::size_t rank = 0; rank < trial.seen.size(); ++rank) {
        const auto& bytes = trial.seen[rank].sent;
        const auto sent = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
        trial.expect(sent == expected, run.rounds - 1, [&] {
            return "rank " + std::to_string(rank) + " sent " + std::to_string(sent) +
                   " bytes; its parameters to each other rank once a round are " + std::to_string(expected);
        });
    }
}

void equals_the_reference(Trial& trial) {
    trial.compare(right_parameters(trial.run), "the reference's");
}

Case with_one_rank(Case run) {
    run.workers = 1;
    return run;
}

} // namespace

std::vector<gate::Property> properties() {
    const gate::Demands<Case> usual{"several ranks", "several local steps"};
    return {spec().property(1, "replicas", "After a round all workers hold the same bits.",
                            gate::judged_by(replicas), usual),
            spec().property(2, "alone", "One worker, with any number of local steps, is plain SGD.",
                            gate::judged_by(alone), {"several local steps"}, with_one_rank),
            spec().property(3, "traffic", "A rank sends its parameters to each other rank once a round.",
                            gate::judged_by(traffic), usual),
            spec().property(0, "reference", "Every bit is the reference's.",
                            gate::judged_by(equals_the_reference), usual)};
}

} // namespace truestep::properties::averaging
