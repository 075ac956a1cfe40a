// Property 13 of section 8, for damaged checkpoints.
#include <string>
#include <vector>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// The state that a rank has to show after each action, for one outcome of the damaging action.
class ExpectedStates {
  public:
    /// `good`: the run without damage, all steps taken. `never`: the run without that action's step, too,
    /// if the checkpoint was restored, since that undoes the step.
    ExpectedStates(const RecordedRun& good, const RunRecording* never, std::size_t damaged)
        : good_(good), never_(never), damaged_(damaged) {}

    [[nodiscard]] const ObservedState& after(std::size_t action, int rank) const {
        const auto at = static_cast<std::size_t>(rank);
        if (never_ == nullptr || action < damaged_)
            return good_.history.after[action].views[at];
        return action == damaged_ ? before(good_, action, rank) : never_->after[action - 1].views[at];
    }
    [[nodiscard]] const std::vector<std::uint8_t>& coming(std::size_t rank) const {
        return (never_ == nullptr ? good_.history : *never_).coming[rank];
    }

  private:
    const RecordedRun& good_;
    const RunRecording* never_;
    std::size_t damaged_;
};

void expect_goes_on(Trial& trial, const ExpectedStates& expected, const RunRecording& history,
                    std::size_t damaged) {
    const auto step = [](std::size_t action) { return static_cast<Index>(action) + 1; };
    for (std::size_t action = 0; action < history.after.size(); ++action) {
        trial.looks_at(action);
        for (std::size_t of = 0; of < history.after[action].views.size(); ++of) {
            const Outcome& outcome = history.after[action].outcomes[of];
            trial.expect(action == damaged || outcome.kind == Outcome::Kind::taken,
                         "action " + std::to_string(step(action)) + ", rank " + std::to_string(of) +
                             ": a good step was not taken: " + outcome.text);
            // Candidates may show any mask after restore().
            trial.same_view(step(action), static_cast<int>(of),
                            expected.after(action, static_cast<int>(of)), history.after[action].views[of],
                            action != damaged);
        }
    }
    for (std::size_t of = 0; of < history.coming.size(); ++of)
        trial.same_mask("next_mask", step(history.after.size() - 1), static_cast<int>(of),
                        expected.coming(of), history.coming[of]);
}

void classify_damage(Trial& trial) {
    const Damage& damage = trial.run().damage;
    const bool bit = damage.kind == Damage::Kind::bit;
    trial.classify(bit && damage.byte == 0, "a file's first byte");
    trial.classify(bit && damage.byte == -1, "a file's last byte");
    trial.classify(bit && damage.byte > 0, "a byte within a file");
    trial.classify(!bit, "a byte is gone or too many");
}

Violation also(const std::string& before, const Violation& violation) {
    Violation told(before + violation.what());
    told.divergence = violation.divergence;
    told.action = violation.action;
    return told;
}

/// A checkpoint that is damaged during the run is either refused by all ranks, which keep their state, or
/// restored to what it was, if the damaged bytes carried nothing. Anything else is a violation.
void refused_or_harmless(Trial& trial) {
    classify_damage(trial);
    Case run = trial.run();
    // As in restart.same: the order of additions, if the library has one for each owner.
    run.owners_in_turn = run.owners_in_turn && trial.implementation().level() == verify::LevelKind::exact;
    const auto damaged = static_cast<std::size_t>(run.chosen_place % run.steps);
    const Scenario good = trial.steps(run, run.steps + 1);
    Scenario scenario = good;
    scenario.actions[damaged].kind = Action::Kind::damage;
    scenario.actions[damaged].damage = run.damage;
    static_cast<void>(trial(good));
    const RecordedRun& undisturbed = trial.runs().back();
    const RunRecording* history = &trial.tolerant(scenario);
    const Outcome outcome = history->after[damaged].outcomes.front();
    if (outcome.damaged.empty())
        return trial.says_nothing("it leaves no file in the folder that it saves to");

    const RunRecording* never = nullptr;
    const bool refused = outcome.kind == Outcome::Kind::refused;
    if (!refused) {
        Scenario without = good;
        without.actions.erase(without.actions.begin() + static_cast<std::ptrdiff_t>(damaged));
        never = &trial(without);
        history = &trial.tolerant(scenario); // once more, since the last run is reported
    }
    try {
        expect_goes_on(trial, ExpectedStates(undisturbed, never, damaged), *history, damaged);
    } catch (const Violation& violation) {
        throw also(outcome.damaged +
                       (refused ? ": the checkpoint was refused, and the run does not go on as it was: "
                                : ": the checkpoint was restored, and not to what it was: "),
                   violation);
    }
}

void needs_damage(Case& run) {
    if (run.damage.kind == Damage::Kind::none)
        run.damage.kind = Damage::Kind::bit;
}

std::string keeps_files(const Implementation& implementation) {
    return implementation.name() == "reference" ? "it keeps no files" : only_scape(implementation);
}

/// Files of 1.2 million bytes, larger than the blocks in which they are read, with an incomplete last word.
Case large(const std::string& damage) {
    Case run = parse_case("damage=" + damage);
    run.tensors = {{"a", 100'003, false}};
    run.data = problem::DataClass::normal;
    run.steps = 2;
    run.chosen_place = 1; // after a step, which leaves a moment
    return run;
}

} // namespace

std::vector<Property> damage_properties() {
    // Our first file has the names, the second the values.
    return {
        {13,
         "restart.damage",
         "A checkpoint with a damaged byte is refused by all ranks, which go on as they were, or restored "
         "to what it was.",
         damaged_case,
         refused_or_harmless,
         usual_demands({"a file's first byte", "a file's last byte", "a byte within a file",
                        "a byte is gone or too many"}),
         keeps_files,
         needs_damage,
         {large("bit:1:-1:0"), large("bit:1:1100000:3")}}};
}

} // namespace truestep::properties::scape
