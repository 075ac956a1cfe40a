// Resumes a run from its recorded state, and compares the two.
#include "resumed_scenario.hpp"

#include <utility>

namespace truestep::properties::mapl {

namespace {

/// Another stage with its steps shifted.
class ShiftedStage final : public Stage {
  public:
    ShiftedStage(std::unique_ptr<Stage> inner, Index by) : inner_(std::move(inner)), by_(by) {}
    Floats forward(Index step, Index micro, const Floats& arrived) override {
        return inner_->forward(step + by_, micro, arrived);
    }
    Floats backward(Index step, Index micro, const Floats& gradient) override {
        return inner_->backward(step + by_, micro, gradient);
    }
    Floats parameter_gradient(Index step) override { return inner_->parameter_gradient(step + by_); }
    Floats parameters() override { return inner_->parameters(); }
    void set_parameters(std::span<const float> trained) override { inner_->set_parameters(trained); }

  private:
    std::unique_ptr<Stage> inner_;
    Index by_;
};

} // namespace

Scenario resumed_before(const Trial& trial, Index step) {
    Scenario other = trial.scenario;
    other.run.steps = trial.run.steps - step;
    other.run.restart = 0;
    other.overflows = trial.scenario.overflows - step;
    other.state = [&trial, step](Index boundary, Side side) {
        EndState state = trial.scenario.state(boundary, side);
        const bool sends = side == Side::sender;
        const RankRecording& seen = trial.seen[static_cast<std::size_t>(sends ? boundary : boundary + 1)];
        state.steps = step;
        state.micro_batches = step * trial.run.micro;
        state.a = seen.at(key(step, sends ? "s.A" : "r.A"));
        state.anchor = seen.at(key(step, sends ? "s.E" : "r.E"));
        if (sends)
            state.m = seen.at(key(step, "s.m"));
        return state;
    };
    other.ids = [inner = trial.scenario.ids, step](Index later, Index micro) {
        return inner(step + later, micro);
    };
    other.stage = [inner = trial.scenario.stage, step](int stage) {
        return std::make_unique<ShiftedStage>(inner(stage), step);
    };
    return other;
}

void goes_on_from(Trial& trial, Index step) {
    const std::vector<RankRecording> resumed = trial.play(resumed_before(trial, step));
    for (const int sender : trial.scenario.senders())
        for (Index later = step; later < trial.run.steps; ++later) {
            const auto compare = [&](int rank, const std::string& in_run, const std::string& in_resumed) {
                const auto at = static_cast<std::size_t>(rank);
                trial.same(resumed[at].at(in_resumed), trial.seen[at].at(in_run), later,
                           boundary_text(trial.scenario, sender, in_run), "that of a run that begins here");
            };
            for (const char* what : {"s.gA", "s.dE"})
                compare(sender, key(later, what), key(later - step, what));
            for (const char* what : {"s.A", "s.m", "s.E"})
                compare(sender, key(later + 1, what), key(later + 1 - step, what));
            for (const char* what : {"r.A", "r.E"})
                compare(sender + 1, key(later + 1, what), key(later + 1 - step, what));
            for (Index micro = 0; micro < trial.run.micro; ++micro) {
                compare(sender, key(later, micro, "dX"), key(later - step, micro, "dX"));
                compare(sender + 1, key(later, micro, "Xhat"), key(later - step, micro, "Xhat"));
            }
        }
}

} // namespace truestep::properties::mapl
