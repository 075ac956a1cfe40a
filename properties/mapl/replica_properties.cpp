// Replicas of a pipeline: all share each boundary's A, and each stage is trained by an optimizer over its
// replicas (section 22.1).
#include <algorithm>
#include <utility>

#include <truestep/reference/scape/adams.hpp>
#include <truestep/reference/scape/scape.hpp>

#include "family.hpp"
#include "network.hpp"

namespace truestep::properties::mapl {

namespace {

using Reals = reference::Vector<float>;

Reals reals_of(const Floats& values) {
    return Eigen::Map<const Reals>(values.data(), static_cast<Index>(values.size()));
}

/// The recordings of a stage under this name, in the order of the replicas.
reference::PerRank<float> shown_by_all(const Trial& trial, int stage, const std::string& what) {
    reference::PerRank<float> all;
    for (const int rank : trial.scenario.ranks_of(stage))
        all.push_back(reals_of(trial.seen[static_cast<std::size_t>(rank)].at(what)));
    return all;
}

std::string of_stage(int stage, int rank, const std::string& what) {
    return "of stage " + std::to_string(stage) + " on rank " + std::to_string(rank) + ", " + what;
}

/// Checks, bit for bit, that every replica has these values.
void all_have(Trial& trial, int stage, Index step, const std::string& what, const Reals& expected,
              const std::string& whose) {
    const Floats values(expected.data(), expected.data() + expected.size());
    for (const int rank : trial.scenario.ranks_of(stage))
        trial.same(values, trial.seen[static_cast<std::size_t>(rank)].at(key(step, what)), step,
                   of_stage(stage, rank, key(step, what)), whose);
}

/// Checks that the gradients given to the optimizer make the recorded parameters, beginning with the first
/// ones.
template <class Reference>
void trained_as_by(Trial& trial, int stage, Reference right, const char* whose) {
    for (Index step = 0; step < trial.run.steps; ++step) {
        right.step(shown_by_all(trial, stage, key(step, "g")), trial.scenario.learning_rate);
        all_have(trial, stage, step + 1, "w", right.state.w, whose);
    }
}

void stage_is_trained(Trial& trial, int stage) {
    const auto own = trial.scenario.stage(stage)->parameters();
    const StageModel model = stage_model(trial.scenario, stage, static_cast<Index>(own.size()));
    const Reals first = reals_of(trial.seen[static_cast<std::size_t>(stage)].at(key(0, "w")));
    all_have(trial, stage, 0, "w", first, "the first replica's");
    if (trial.run.trainer == Trainer::scape)
        trained_as_by(trial, stage, reference::scape::Scape<float>(model.problem, model.density, first),
                      "that of the reference's SCAPE over the replicas' gradients");
    else
        trained_as_by(trial, stage, reference::scape::AdamS<float>(model.problem, first),
                      "that of the reference's AdamS over the replicas' gradients");
}

/// Checks that the optimizer got the stage's own gradient and those of the tables, and that its parameters
/// are in use.
void is_put_together(Trial& trial, int stage, Index step) {
    const bool trains = trial.run.anchors == Anchors::shared || trial.run.anchors == Anchors::two;
    for (const int rank : trial.scenario.ranks_of(stage)) {
        const RankRecording& seen = trial.seen[static_cast<std::size_t>(rank)];
        Floats gradient = seen.at(key(step, "dW"));
        Floats tables;
        const auto add = [&](const char* of_gradient, const char* table) {
            for (const auto& [from, to] :
                 {std::pair(key(step, of_gradient), &gradient), std::pair(key(step, table), &tables)})
                to->insert(to->end(), seen.at(from).begin(), seen.at(from).end());
        };
        if (trains && stage + 1 < trial.scenario.workers())
            add("s.dE", "s.E");
        if (trains && stage > 0)
            add("r.dE", "r.E");
        trial.same(gradient, seen.at(key(step, "g")), step, of_stage(stage, rank, key(step, "g")),
                   "the stage's and the tables'");
        const Floats& w = seen.at(key(step, "w"));
        trial.same({w.end() - static_cast<std::ptrdiff_t>(tables.size()), w.end()}, tables, step,
                   of_stage(stage, rank, key(step, "the tables")), "what was trained");
    }
}

/// Checks that A follows the mean of all replicas' gradients, and is the same in all of them.
void boundary_is_common(Trial& trial, int boundary) {
    const auto shown = [&](const std::string& what) {
        return reals_of(trial.seen[static_cast<std::size_t>(boundary)].at(what));
    };
    for (Index step = 0; step <= trial.run.steps; ++step) {
        for (const char* what : {"s.A", "s.m", "s.E"})
            all_have(trial, boundary, step, what, shown(key(step, what)), "the first replica's");
        all_have(trial, boundary + 1, step, "r.A", shown(key(step, "s.A")), "the first sender's");
        if (trial.run.anchors == Anchors::shared)
            all_have(trial, boundary + 1, step, "r.E", shown(key(step, "s.E")), "the first sender's");
        if (step < trial.run.steps)
            all_have(trial, boundary, step, "s.gM",
                     reference::scape::mean_in_rank_order(shown_by_all(trial, boundary, key(step, "s.gA"))),
                     "the mean of the replicas'");
    }
}

/// A stage that the reference's AdamS trains.
class TrainsItself final : public Stage {
  public:
    TrainsItself(std::unique_ptr<Stage> inner, const StageModel& model, double rate)
        : inner_(std::move(inner)), made_(model.problem, reals_of(inner_->parameters())), rate_(rate) {}
    Floats forward(Index step, Index micro, const Floats& arrived) override {
        return inner_->forward(step, micro, arrived);
    }
    Floats backward(Index step, Index micro, const Floats& gradient) override {
        return inner_->backward(step, micro, gradient);
    }
    Floats parameter_gradient(Index step) override {
        Floats gradient = inner_->parameter_gradient(step);
        made_.step({reals_of(gradient)}, rate_);
        inner_->set_parameters({made_.state.w.data(), static_cast<std::size_t>(made_.state.w.size())});
        return gradient;
    }

  private:
    std::unique_ptr<Stage> inner_;
    reference::scape::AdamS<float> made_;
    double rate_;
};

/// Checks that one replica equals the pipeline without replicas.
void as_without_replicas(Trial& trial) {
    Scenario alone = trial.scenario;
    alone.run.trainer = Trainer::none;
    alone.stage = [scenario = trial.scenario](int stage) {
        std::unique_ptr<Stage> inner = scenario.stage(stage);
        const auto own = static_cast<Index>(inner->parameters().size());
        return std::make_unique<TrainsItself>(std::move(inner), stage_model(scenario, stage, own),
                                              scenario.learning_rate);
    };
    trial.same(trial.play(alone), trial.seen, "that of the pipeline without replicas");
}

// 20.
void composed(Trial& trial) {
    trial.scenario.stage = [run = trial.run](int stage) { return network_stage(run, stage); };
    trial.seen = trial.play(trial.scenario);
    for (int stage = 0; stage < trial.scenario.workers(); ++stage) {
        stage_is_trained(trial, stage);
        for (Index step = 0; step < trial.run.steps; ++step)
            is_put_together(trial, stage, step);
    }
    for (int boundary = 0; boundary < trial.scenario.boundaries(); ++boundary)
        boundary_is_common(trial, boundary);
    const bool tables = trial.run.anchors == Anchors::shared || trial.run.anchors == Anchors::two;
    if (trial.run.replicas == 1 && trial.run.trainer == Trainer::adams && !tables)
        as_without_replicas(trial);
}

/// A step with another rate on one replica is refused on all, and changes nothing.
void other_rate(Trial& trial) {
    if (!trial.candidate.names_differences()) // others may compare none
        return;
    trial.seen = trial.play(trial.scenario);
    Scenario flawed = trial.scenario;
    flawed.flaw = Flaw::rate_of_one_replica;
    std::vector<RankRecording> seen = trial.play(flawed);
    for (const int rank : trial.scenario.senders()) {
        const std::string& line = seen[static_cast<std::size_t>(rank)].refused["flaw"];
        trial.expect(line.find("has the rate ") != std::string::npos &&
                         line.find('\n') == std::string::npos,
                     0, [&] {
                         return "the last replica has another rate, and rank " + std::to_string(rank) +
                                (line.empty() ? " takes it" : " says: " + line);
                     });
    }
    trial.same(trial.seen, seen, "that of a run in which no rate was refused");
}

// 16. Replicas that begin with other values do not begin, nor go on with another rate.
void other_replica(Trial& trial) {
    if (trial.run.replicas == 1) // as under mpirun, where there are too few ranks
        return;
    other_rate(trial);
    using Change = std::pair<std::string, Floats EndState::*>;
    std::vector<Change> changes{{"first moment", &EndState::m}, {"subspace", &EndState::a}};
    if (trial.run.anchors != Anchors::none)
        changes.emplace_back("anchor", &EndState::anchor);
    for (const Change& change : changes) {
        Scenario flawed = trial.scenario;
        flawed.ends_at_start = true;
        if (trial.run.seed % 2 == 1) // as from a checkpoint
            flawed.state = [inner = flawed.state, micro = trial.run.micro](Index boundary, Side side) {
                EndState state = inner(boundary, side);
                state.steps = 3;
                state.micro_batches = 3 * micro;
                return state;
            };
        flawed.other_start = [part = change.second, last = static_cast<int>(trial.run.replicas) -
                                                           1](int replica, Side, EndState& state) {
            if (replica == last)
                for (float& value : state.*part)
                    value = part == &EndState::a ? -value : value + 1.0F;
        };
        std::vector<RankRecording> seen = trial.play(flawed);
        for (const int rank : trial.scenario.ranks_of(0)) {
            const std::string& line = seen[static_cast<std::size_t>(rank)].refused["start"];
            trial.expect(
                !line.empty() && line.find('\n') == std::string::npos &&
                    (!trial.candidate.names_differences() || line.find(change.first) != std::string::npos),
                0, [&] {
                    return "the last replica begins with another " + change.first + ", and rank " +
                           std::to_string(rank) + (line.empty() ? " begins" : " does not say so: " + line);
                });
        }
    }
}
Case trained_together(Case run) {
    run.restart = 0;
    run.workers = std::min<Index>(run.workers, 3);
    run.vocabulary = std::min<Index>(run.vocabulary, 300);
    if (run.replicas == 1 && run.seed % 4 != 0)
        run.replicas = 2 + run.seed % 2;
    if (run.trainer == Trainer::none)
        run.trainer = run.seed % 3 == 0 ? Trainer::adams : Trainer::scape;
    return run;
}

Case several_replicas(Case run) {
    run = trained_together(run);
    run.workers = 2;
    run.replicas = std::max<Index>(2, run.replicas);
    return run;
}

/// One replica, and larger cases with several.
std::vector<gate::Line> one_and_several(const gate::Implementation& /*of*/,
                                        const gate::Overrides& overrides) {
    if (!overrides.empty())
        return {};
    return {"rank=2,width=4,workers=3,tokens=3,vocabulary=5,micro=2,steps=3,anchors=fixed,trainer=adams",
            "rank=8,width=24,workers=3,replicas=3,tokens=20,vocabulary=50,micro=3,steps=3,anchors=two,"
            "schedule=1f1b,data=normal,trainer=scape"};
}

} // namespace

std::vector<gate::Property> replica_properties() {
    gate::Property all_together = property(
        20, "composed", "Replicas of a pipeline have one A, and SCAPE or AdamS trains their stages.",
        composed,
        {"several replicas", "trained by SCAPE", "several steps", "anchors", {"several boundaries", 25}},
        trained_together, Replicas::any);
    all_together.also = one_and_several;
    return {all_together,
            property(16, "starts.replicas",
                     "Replicas that begin with other values, or have another rate, are refused.",
                     other_replica, {{"several replicas", 90}, "anchors"}, several_replicas,
                     Replicas::any)};
}

} // namespace truestep::properties::mapl
