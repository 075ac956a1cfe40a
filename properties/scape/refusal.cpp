// Property 11 of section 8: a refused step leaves all state unchanged, and the next good step works.
#include <cmath>
#include <utility>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

Index refused_coordinate(const Case& run) {
    const Index last = run.size() - 1;
    switch (run.chosen_place / run.steps % 6) {
    case 0:
        return 0;
    case 1:
        return last;
    default:
        return run.chosen_place % run.size();
    }
}

void refused_and_forgotten(Trial& trial, const Scenario& good, Index refused, Action bad,
                           const std::function<void(const std::string& who, const Outcome&)>& told) {
    trial.classify(refused > 1, "not in the first step");
    Scenario with_a_bad_one = good;
    with_a_bad_one.actions.insert(with_a_bad_one.actions.begin() + (refused - 1), std::move(bad));
    const RunRecording& undisturbed = trial(good);
    const RunRecording& history = trial.tolerant(with_a_bad_one);
    for (std::size_t action = 0; action < history.after.size(); ++action)
        for (int of = 0; of < trial.run().workers; ++of) {
            const Outcome& outcome = history.after[action].outcomes[static_cast<std::size_t>(of)];
            const ObservedState& view = history.after[action].views[static_cast<std::size_t>(of)];
            const auto step = static_cast<Index>(action) + 1;
            const std::string who =
                "action " + std::to_string(step) + ", rank " + std::to_string(of) + ": ";
            if (step == refused) {
                trial.expect(outcome.kind == Outcome::Kind::refused, who + "the step was not refused");
                told(who, outcome);
                trial.same_view(step, of, before(trial.runs().back(), action, of), view, action > 0);
            } else {
                trial.expect(outcome.kind == Outcome::Kind::taken,
                             who + "a good step was not taken: " + outcome.text);
                const auto same = static_cast<std::size_t>(step > refused ? step - 2 : step - 1);
                trial.same_view(step, of, undisturbed.after[same].views[static_cast<std::size_t>(of)],
                                view);
            }
        }
    for (std::size_t of = 0; of < undisturbed.coming.size(); ++of)
        trial.same_mask("next_mask", trial.run().steps, static_cast<int>(of), undisturbed.coming[of],
                        history.coming[of]);
}

namespace {

void refused_on_all_ranks(Trial& trial) {
    const Case& run = trial.run();
    const Index refused = run.chosen_place % run.steps + 1;
    const auto rank = static_cast<std::size_t>(run.chosen_rank % run.workers);
    const Index index = refused_coordinate(run);
    const float value = unacceptable(static_cast<std::uint8_t>(run.seed));
    const Scenario good = trial.steps();
    const std::string place = good.setup.problem.layout.describe(index);
    Action bad = good.actions[static_cast<std::size_t>(refused - 1)];
    bad.gradients[rank][static_cast<std::size_t>(index)] = value;
    // Later coordinates and later ranks are not named.
    if (index + 1 < run.size() && run.seed % 2 == 0)
        bad.gradients[rank].back() = unacceptable(static_cast<std::uint8_t>(run.seed + 1));
    for (std::size_t later = rank + 1; later < bad.gradients.size() && run.seed % 3 == 0; ++later)
        bad.gradients[later].front() = unacceptable(static_cast<std::uint8_t>(run.seed + later));
    refused_and_forgotten(
        trial, good, refused, std::move(bad), [&](const std::string& who, const Outcome& outcome) {
            // A sum of parts with a NaN is some NaN; devices have one for all.
            const bool any_nan = run.parts > 1 && std::isnan(value) && std::isnan(outcome.value);
            trial.expect(outcome.rank == static_cast<int>(rank) && outcome.index == index &&
                             (any_nan || bits_of(outcome.value) == bits_of(value)),
                         who + "the refusal names the wrong place or value: " + outcome.text);
            trial.expect(outcome.text.find(place) != std::string::npos,
                         who + "the refusal does not name " + place + ": " + outcome.text);
        });
}

/// Two threads of rank 1 find one each. It is larger than cases of programs and devices, which have no such
/// threads. The second finds its own at the end of a long share, so later.
Case refused_by_two_threads() {
    Case run;
    run.tensors = {{"a", 200'001, false}};
    run.workers = 2;
    run.data = problem::DataClass::normal;
    run.seed = 2;
    run.steps = 3;
    run.chosen_place = 2; // the third step, the first coordinate
    run.chosen_rank = 1;
    return run;
}

/// The value stands where whole words are looked at together, far from both ends.
Case refused_within_words() {
    Case run;
    run.tensors = {{"a", 3000, false}};
    run.workers = 2;
    run.density = 0.3;
    run.data = problem::DataClass::normal;
    run.steps = 2;
    run.chosen_place = 1505; // the second step, that coordinate
    return run;
}

} // namespace

std::vector<Property> refusal_properties() {
    return {{11,
             "refusal",
             "A gradient that is no number or too large is refused on all ranks, by name; no bit changes, "
             "and the next "
             "good step works.",
             any_case,
             refused_on_all_ranks,
             usual_demands({"not in the first step"}),
             [](const Implementation&) { return std::string(); },
             [](Case&) {},
             {refused_by_two_threads(), refused_within_words()}}};
}

} // namespace truestep::properties::scape
