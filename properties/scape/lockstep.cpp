// Runs a scenario on the reference: all ranks in lockstep, in one process.
#include <truestep/properties/scape/implementations.hpp>

#include <algorithm>
#include <utility>

#include <truestep/reference/scape/check.hpp>
#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/scape/run.hpp>

#include "live.hpp"
#include "support.hpp"
#include "vectors.hpp"

namespace truestep::properties::scape {

namespace {

using reference::Coordinates;
using reference::PerRank;
using reference::Vector;
using verify::scape::Run;

class ReferenceRun {
  public:
    explicit ReferenceRun(const Setup& setup)
        : problem_(setup.problem), density_(setup.density),
          run_(problem_, density_, to_vector(setup.parameters)) {
        if (setup.begun)
            begin_at(*setup.begun);
    }

    Outcome step(const Action& action) {
        halted_ = false;
        PerRank<float> g;
        for (const auto& of_rank : action.gradients)
            g.push_back(to_vector(of_rank));
        Outcome outcome;
        try {
            auto results = run_.step(g, action.learning_rate);
            told_ = told_of(results);
            mask_ = std::move(results.mask);
            next_ = std::move(results.next_mask);
        } catch (const reference::scape::RefusedStep& refused) {
            outcome.kind = Outcome::Kind::refused;
            outcome.text = refused.what();
            outcome.rank = refused.rank;
            outcome.index = refused.index;
            outcome.value = g[static_cast<std::size_t>(refused.rank)][refused.index];
        } catch (const reference::scape::Halted& halted) {
            outcome.kind = Outcome::Kind::halted;
            outcome.text = halted.what();
            halted_ = true;
        }
        return outcome;
    }

    void restart(const Action& action) {
        auto state = reference::scape::redistribute(run_.state(), action.problem->workers);
        problem_ = action.problem.value();
        run_ = Run<float>(problem_, density_, Vector<float>::Zero(problem_.layout.size()));
        run_.restore(std::move(state));
    }

    [[nodiscard]] std::vector<ObservedState> views() const {
        const auto state = run_.state();
        const Index d = problem_.layout.size();
        ObservedState same;
        same.step = state.step;
        same.parameters = to_std(state.w);
        same.moment = to_std(state.m);
        same.mask = verify::scape::to_bits(mask_, d);
        same.told = told_;
        same.residual.assign(static_cast<std::size_t>(d), 0.0F);
        std::vector<ObservedState> all(static_cast<std::size_t>(problem_.workers), same);
        for (std::size_t rank = 0; rank < state.e.size(); ++rank)
            all[rank].residual = to_std(state.e[rank]);
        return all;
    }

    /// Empty after a halt, since there is no next step.
    [[nodiscard]] std::vector<std::vector<std::uint8_t>> coming() const {
        const auto ranks = static_cast<std::size_t>(problem_.workers);
        if (halted_)
            return std::vector<std::vector<std::uint8_t>>(ranks);
        return {ranks, verify::scape::to_bits(next_, problem_.layout.size())};
    }

  private:
    void begin_at(const InitialState& begun) {
        auto state = run_.state();
        state.step = begun.step;
        if (!begun.moment.empty())
            state.m = to_vector(begun.moment);
        state.e.clear();
        for (const auto& of_rank : begun.residual)
            state.e.push_back(to_vector(of_rank));
        state.S.emplace();
        for (Index index = 0; index < problem_.layout.size(); ++index)
            if (selected(begun.mask, index))
                state.S->push_back(index);
        next_ = *state.S;
        run_.restore(std::move(state));
    }

    /// All but the bytes, which are counted outside.
    [[nodiscard]] StepReport told_of(const verify::scape::StepResults<float>& results) const {
        StepReport told;
        told.step = run_.state().step;
        told.selected = static_cast<Index>(results.mask.size());
        if (problem_.algorithm == problem::Algorithm::adams)
            return told; // its mask does not change, and it does not clip
        for (const Index coordinate : results.mask)
            told.kept += std::ranges::binary_search(mask_, coordinate) ? 1 : 0;
        if (problem_.settings.clip_norm > 0.0) {
            const Vector<float> ghat = results.reconstructed(results.mask);
            told.gradient_norm = reference::scape::norm_in_blocks<double>(ghat, problem_.settings.norm);
            told.clip_factor = static_cast<float>(
                std::min(problem_.settings.clip_norm / (told.gradient_norm + 1e-6), 1.0));
        }
        return told;
    }

    problem::Problem problem_;
    problem::DensitySchedule density_;
    Run<float> run_;
    StepReport told_;
    Coordinates mask_; ///< of the last step
    Coordinates next_;
    bool halted_ = false; ///< in the last step
};

/// Keeps its state in a restart with as many ranks.
class TrainedReference final : public Lockstep {
  public:
    explicit TrainedReference(const Setup& setup)
        : workers_(static_cast<std::size_t>(setup.problem.workers)), run_(setup) {}
    std::vector<ObservedState> views() override { return run_.views(); }
    std::vector<Outcome> step(const Action& action) override {
        std::vector<Outcome> of_all(workers_, run_.step(action));
        return of_all;
    }
    void restart() override {}

  private:
    std::size_t workers_;
    ReferenceRun run_;
};

class ReferenceImplementation final : public Implementation {
  public:
    std::string name() const override { return "reference"; }
    std::string communicator() const override { return "-"; }
    verify::LevelKind level() const override { return verify::LevelKind::exact; }
    bool takes(int workers) const override { return workers >= 1; }

    RunRecording run(const Scenario& scenario) const override {
        RunRecording history;
        ReferenceRun reference(scenario.setup);
        for (const Action& action : scenario.actions) {
            Outcome outcome;
            // The reference keeps no files that could be damaged: the step stays, as after a refused
            // checkpoint.
            if (action.kind == Action::Kind::step || action.kind == Action::Kind::damage)
                outcome = reference.step(action);
            if (action.kind == Action::Kind::restart)
                reference.restart(action);
            if (action.kind == Action::Kind::undo)
                outcome = ReferenceRun(reference).step(action); // on a copy, which changes nothing
            ActionRecording snapshot;
            snapshot.views = reference.views();
            snapshot.outcomes.assign(snapshot.views.size(), outcome);
            history.after.push_back(std::move(snapshot));
        }
        history.coming = reference.coming();
        return history;
    }

    void train(const Setup& setup, GradientSource& live) const override {
        TrainedReference ranks(setup);
        train_in_lockstep(setup, live, ranks);
    }
};

} // namespace

std::shared_ptr<const Implementation> reference_implementation() {
    return std::make_shared<ReferenceImplementation>();
}

} // namespace truestep::properties::scape
