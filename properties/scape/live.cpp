// Trainings of implementations that run all ranks at once.
#include "live.hpp"

#include <stdexcept>

namespace truestep::properties::scape {

void show(GradientSource& live, int rank, const ObservedState& view) {
    for (const auto* vector : {&view.parameters, &view.moment, &view.residual})
        live.seen(rank, std::span<const float>(*vector));
    if (view.step > 0) // at step 0 the mask may be anything
        live.seen(rank, std::span<const std::uint8_t>(view.mask));
}

void Implementation::train(const Setup&, GradientSource&) const {
    throw std::runtime_error(name() + " takes gradients that are known beforehand alone");
}

void train_in_lockstep(const Setup& setup, GradientSource& live, Lockstep& ranks) {
    const auto workers = static_cast<std::size_t>(setup.problem.workers);
    for (;;) {
        const std::vector<ObservedState> views = ranks.views();
        Action action;
        bool ends = false;
        for (std::size_t rank = 0; rank < workers; ++rank) {
            show(live, static_cast<int>(rank), views[rank]);
            const GradientSource::Step step = live.next(static_cast<int>(rank), views[rank].parameters);
            ends = ends || step.ends;
            if (step.ends)
                continue; // the others are asked, too: each looks once more
            action.learning_rate = step.learning_rate;
            action.gradients.push_back(gate::sum_of(step.parts));
            if (step.restarts && rank + 1 == workers)
                ranks.restart();
        }
        if (ends)
            return;
        for (const Outcome& outcome : ranks.step(action))
            if (outcome.kind != Outcome::Kind::taken)
                throw std::runtime_error(outcome.text);
    }
}

} // namespace truestep::properties::scape
