// Steps, refusals, restarts and delays in any order: the reference follows the same script, and no bit may
// differ. It covers all of section 8 that needs no special case.
#include <algorithm>
#include <bit>

#include <truestep/problem/text.hpp>
#include <truestep/properties/scape/implementations.hpp>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// Checks a rank's report of its step against the reference's, and against the counted bytes.
void expect_told(Trial& trial, const std::string& who, const StepReport& should, const StepReport& is,
                 const distributed::Bytes& sent, bool knows_the_mask_before) {
    const auto expect = [&](bool same, const std::string& what, const std::string& one,
                            const std::string& two) {
        trial.expect(same, who + "it says that " + what + " is " + two + "; it should be " + one);
    };
    const auto same_bits = [](double one, double two) {
        return std::bit_cast<std::uint64_t>(one) == std::bit_cast<std::uint64_t>(two);
    };
    expect(should.step == is.step, "the step", std::to_string(should.step), std::to_string(is.step));
    expect(should.selected == is.selected, "the number of selected coordinates",
           std::to_string(should.selected), std::to_string(is.selected));
    if (knows_the_mask_before)
        expect(should.kept == is.kept, "the number of those that the mask before had",
               std::to_string(should.kept), std::to_string(is.kept));
    expect(same_bits(should.gradient_norm, is.gradient_norm), "the gradient's norm",
           shortest(should.gradient_norm), shortest(is.gradient_norm));
    expect(bits_of(should.clip_factor) == bits_of(is.clip_factor), "the clip factor",
           shortest(should.clip_factor), shortest(is.clip_factor));
    for (std::size_t kind = 0; kind < sent.size(); ++kind)
        expect(sent[kind] == is.sent[kind], "what it has sent, of kind " + std::to_string(kind) + ",",
               std::to_string(sent[kind]), std::to_string(is.sent[kind]));
}

} // namespace

void same_history(Trial& trial, const Scenario& scenario, const RunRecording& expected,
                  const RunRecording& actual) {
    // A checkpoint need not hold the mask that was used last, only the coming one.
    bool restored = false;
    for (std::size_t action = 0; action < expected.after.size(); ++action) {
        const auto step = static_cast<Index>(action) + 1;
        const Action::Kind kind = scenario.actions[action].kind;
        restored = restored || kind == Action::Kind::restart || kind == Action::Kind::undo;
        const ActionRecording& one = expected.after[action];
        const ActionRecording& two = actual.after[action];
        for (std::size_t rank = 0; rank < one.views.size(); ++rank) {
            const Outcome& should = one.outcomes[rank];
            const Outcome& is = two.outcomes[rank];
            const std::string who =
                "action " + std::to_string(step) + ", rank " + std::to_string(rank) + ": ";
            trial.expect(should.kind == is.kind,
                         who + (should.kind == Outcome::Kind::taken
                                    ? "the step was not taken: " + is.text
                                    : "the step should have ended so: " + should.text));
            if (should.kind == Outcome::Kind::refused)
                trial.expect(should.rank == is.rank && should.index == is.index,
                             who + "the refusal names the wrong place: " + is.text);
            // A halted step may be half done; it matters that all ranks halt.
            if (should.kind == Outcome::Kind::halted)
                continue;
            // A mask belongs to the step that used it; masks from before a restart need not be kept.
            const bool has_mask = should.kind == Outcome::Kind::taken && kind == Action::Kind::step;
            trial.same_view(step, static_cast<int>(rank), one.views[rank], two.views[rank], has_mask);
            if (has_mask && two.views[rank].told)
                expect_told(trial, who, *one.views[rank].told, *two.views[rank].told, is.sent, !restored);
        }
        if (kind == Action::Kind::step && one.outcomes.front().kind == Outcome::Kind::taken)
            restored = false;
    }
    if (std::ranges::any_of(expected.after, [](const ActionRecording& snapshot) {
            return snapshot.views.front().step > 0;
        }))
        for (std::size_t rank = 0; rank < expected.coming.size(); ++rank)
            trial.same_mask("next_mask", static_cast<Index>(expected.after.size()), static_cast<int>(rank),
                            expected.coming[rank], actual.coming[rank]);
}

namespace {

Scenario script_of(Trial& trial) {
    const Case& run = trial.run();
    Scenario scenario = trial.steps(run, 0);
    int workers = run.workers;
    Index t = 1;
    for (const Operation& operation : run.script) {
        switch (operation.kind) {
        case Operation::Kind::step:
            scenario.actions.push_back(step_with(run, workers, t++));
            break;
        case Operation::Kind::inject: {
            Action action = step_with(run, workers, t);
            const auto rank = static_cast<std::size_t>(operation.rank % workers);
            action.gradients[rank][static_cast<std::size_t>(run.chosen_place % run.size())] =
                unacceptable(operation.what);
            if (operation.what >= 8) {
                // The refusal names the lowest rank's lowest index, whichever rank sees it first.
                const std::size_t next = (rank + 1) % action.gradients.size();
                action.gradients[next][static_cast<std::size_t>((run.chosen_place / 3) % run.size())] =
                    unacceptable(static_cast<std::uint8_t>(operation.what + 3));
                trial.classify(true, "two refusals at once");
            }
            scenario.actions.push_back(std::move(action));
            trial.classify(true, "a refusal");
            break;
        }
        case Operation::Kind::restart:
            trial.classify(operation.workers != workers, "a restart with other ranks");
            workers = operation.workers;
            scenario.actions.push_back(restart_with(run, workers, run.chosen_place % 2 == 1));
            break;
        case Operation::Kind::undo: {
            Action action = step_with(run, workers, t + 1);
            action.kind = Action::Kind::undo;
            scenario.actions.push_back(std::move(action));
            trial.classify(true, "a step undone");
            break;
        }
        case Operation::Kind::delay: {
            Action action;
            action.kind = Action::Kind::disturb;
            action.disturbance = disturbance(operation.what);
            scenario.actions.push_back(std::move(action));
            trial.classify(true, "a delay");
            break;
        }
        }
    }
    trial.classify(t > 2, "two steps and more");
    return scenario;
}

void any_script(Trial& trial) {
    trial.expect(!trial.run().script.empty(), "the case has no script; give one");
    const Scenario scenario = script_of(trial);
    const RunRecording expected = reference_implementation()->run(scenario);
    same_history(trial, scenario, expected, trial.tolerant(scenario));
}

/// The third step makes infinities of the parameters (`reference` has more such cases), and is undone. From
/// the restored state the run goes to the same end again and again.
Case halts_and_goes_on() {
    Case run;
    run.tensors = {{"a", 70, false}, {"b", 2, true}};
    run.workers = 2;
    run.density = 0.3;
    run.weight_decay = 1e17;
    run.data = problem::DataClass::normal;
    run.script =
        parse_case("script=step+step+undo+undo+restart:3+undo+delay:3+undo+restart:2+undo+step").script;
    run.chosen_place = 3 * (run.workers - 1);
    return run;
}

/// One rank refuses its gradient before the mask is sent, with a payload of bf16, for which the others need
/// the mask before they agree.
Case refuses_before_the_mask() {
    Case run;
    run.workers = 2;
    run.payload = problem::Payload::bf16;
    run.script = parse_case("script=delay:0+step+inject:0:0+step").script;
    run.chosen_place = 3 * (run.workers - 1);
    return run;
}

} // namespace

std::vector<Property> machine_properties() {
    return {
        {13,
         "machine",
         "Steps, refusals, delays, restarts with other ranks and steps undone, in any order: every bit "
         "is the "
         "reference's.",
         scripted_case,
         any_script,
         {"a refusal", "a restart with other ranks", "a delay", "two refusals at once", "a step undone",
          "two steps and more", "several parts", "several buckets", "buckets change", "several restarts",
          "a restart while the density changes", "several checkpoints", "two checkpoints of one step"},
         [](const Implementation& implementation) {
             if (implementation.name() == "reference")
                 return std::string("it would be compared with itself");
             if (implementation.level() != verify::LevelKind::exact)
                 return std::string("it claims no bits of the reference");
             return only_scape(implementation);
         },
         [](Case&) {},
         {halts_and_goes_on(), refuses_before_the_mask()}}};
}

} // namespace truestep::properties::scape
