// Property 5 of section 8: the mask is made one step ahead, and the time of its arrival changes nothing.
#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

void later_gradients_do_not_matter(Trial& trial) {
    const Case& run = trial.run();
    const Scenario scenario = trial.steps(run, run.steps + 1);
    const auto mask = trial(scenario).after.back().views.front().mask;
    Case other = run;
    other.seed = run.seed + 1;
    Scenario with_others = scenario;
    with_others.actions.back().gradients = gradients_of(other, run.steps + 1);
    const RunRecording& history = trial(with_others);
    trial.same_mask("mask with other gradients in its own step,", run.steps + 1, 0, mask,
                    history.after.back().views.front().mask);
    trial.classify(history.coming.front() != mask, "the mask changes");
    Scenario with_none = scenario;
    for (auto& gradient : with_none.actions.back().gradients)
        gradient.assign(gradient.size(), 0.0F);
    trial.same_mask("mask without gradients in its own step,", run.steps + 1, 0, mask,
                    trial(with_none).after.back().views.front().mask);
}

void arrival_does_not_matter(Trial& trial) {
    const Case& run = trial.run();
    const Scenario scenario = trial.steps();
    const RunRecording& undisturbed = trial(scenario);
    Scenario disturbed = scenario;
    Action disturb;
    disturb.kind = Action::Kind::disturb;
    disturb.disturbance = disturbance(static_cast<std::uint8_t>(run.chosen_place % 6));
    disturbed.actions.insert(disturbed.actions.begin(), disturb);
    const RunRecording& late = trial(disturbed);
    for (std::size_t step = 0; step < undisturbed.after.size(); ++step) {
        trial.looks_at(step + 1);
        for (std::size_t rank = 0; rank < undisturbed.after[step].views.size(); ++rank)
            trial.same_view(static_cast<Index>(step) + 1, static_cast<int>(rank),
                            undisturbed.after[step].views[rank], late.after[step + 1].views[rank]);
    }
    for (std::size_t rank = 0; rank < undisturbed.coming.size(); ++rank)
        trial.same_mask("next_mask", run.steps, static_cast<int>(rank), undisturbed.coming[rank],
                        late.coming[rank]);
}

} // namespace

std::vector<Property> delay_properties() {
    return {
        {5,
         "delay.later_gradients",
         "Other gradients in step t+1 change no bit of S_{t+1}.",
         [] { return changed(any_case(), [](Case& run) { run.steps = run.steps % 3 + 1; }); },
         later_gradients_do_not_matter,
         {"several ranks", "density below 1", "the mask changes"},
         only_scape},
        {5, "delay.arrival", "Messages that come late or in another order change no bit of anything.",
         any_case, arrival_does_not_matter, usual_demands(),
         [](const Implementation& implementation) {
             return std::string(implementation.communicates() ? "" : "it sends no messages");
         }},
    };
}

} // namespace truestep::properties::scape
