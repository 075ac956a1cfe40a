// The property that covers what the others cannot: every bit, or every value within its bound, is the
// reference's.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <truestep/problem/tunable.hpp>
#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/recording.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// Compares how each action ended. This needs no bound: in no case does rounding decide between a number
/// and an infinity.
void ended_alike(Trial& trial, const RunRecording& expected, const RunRecording& actual) {
    for (std::size_t action = 0; action < expected.after.size(); ++action)
        for (std::size_t rank = 0; rank < expected.after[action].outcomes.size(); ++rank) {
            const Outcome& should = expected.after[action].outcomes[rank];
            const Outcome& is = actual.after[action].outcomes[rank];
            trial.expect(should.kind == is.kind, "step " + std::to_string(action + 1) + ", rank " +
                                                     std::to_string(rank) + ": " +
                                                     (should.kind == Outcome::Kind::taken
                                                          ? "it was not taken: " + is.text
                                                          : "it should have ended so: " + should.text));
        }
}

bool has_halted(const RunRecording& history) {
    return std::ranges::any_of(history.after, [](const ActionRecording& snapshot) {
        return snapshot.outcomes.front().kind == Outcome::Kind::halted;
    });
}

void within_the_bound(Trial& trial, const RecordedRun& ran) {
    // The checker of traces computes the bounds. Each process has its own file.
    static const std::shared_ptr<const Group> here = make_thread_group(std::chrono::seconds(60));
    const std::filesystem::path path =
        std::filesystem::path(scratch_folder(*here)) / ("rel_" + gate::process_name() + ".safetensors");
    if (!save_trace(path, ran, "gate")) {
        if (has_halted(ran.history))
            return; // halted before any step was seen completely
        throw Violation("there is no step to compare");
    }
    verify::VerifyOptions options;
    // The bound of a free run grows with every step until it proves nothing; that of one step does not.
    options.from = verify::ReferenceStart::recorded;
    options.level = verify::Level::rel();
    const auto verdict = verify::scape::verify_trace(path, options);
    const verify::Row all = verify::total(verdict.rows);
    trial.count({all.compared, all.mismatched, all.greatest_ulps, all.share_of_limit});
    if (verdict.first)
        throw Violation("step " + std::to_string(verdict.first->step) + ", " + verdict.first->result +
                            (verdict.first->between_ranks
                                 ? " is not the same on all ranks"
                                 : " is further from the reference than its bound"),
                        *verdict.first);
}

/// In some cases the first step's update makes an infinity of one parameter, where the decay alone would
/// leave a number: its gradient is so small that only epsilon divides it.
void overflow_by_an_update(const Case& run, Scenario& scenario) {
    Setup& setup = scenario.setup;
    const auto dense = std::ranges::find_if(
        setup.problem.segments, [](const auto& s) { return s.always_dense && s.end > s.begin; });
    if (run.seed % 8 != 5 || run.chosen_place % 3 != 0 || dense == setup.problem.segments.end())
        return;
    setup.problem.settings.epsilon = 0x1p-149;
    Action& first = scenario.actions.front();
    first.learning_rate = 1e18;
    if (run.weight_decay > 0.0)
        setup.problem.settings.weight_decay = 0.01 / first.learning_rate;
    const auto at = static_cast<std::size_t>(dense->begin);
    setup.parameters[at] = -std::numeric_limits<float>::max();
    for (std::vector<float>& gradient : first.gradients)
        gradient[at] = 1e-23F;
}

void equals_the_reference(Trial& trial) {
    Scenario scenario = trial.steps();
    overflow_by_an_update(trial.run(), scenario);
    const bool exact = trial.implementation().level() == verify::LevelKind::exact;
    const RunRecording& actual = trial.tolerant(scenario);
    const RunRecording expected = reference_implementation()->run(scenario);
    if (exact) {
        same_history(trial, scenario, expected, actual);
    } else {
        ended_alike(trial, expected, actual);
        within_the_bound(trial, trial.runs().back());
    }
}

std::string not_itself(const Implementation& implementation) {
    return implementation.name() == "reference" ? "it would be compared with itself" : "";
}

/// Adds cases that any_case() seldom draws: more ranks than parameters.
rc::Gen<Case> any_case_of_the_world() {
    return changed(any_case(), [](Case& run) {
        if (run.chosen_place % 6 == 5)
            run.tensors = {{"a", 1 + run.chosen_place / 6 % 3, false}};
    });
}

/// As large as real shares, for implementations that take so many (ImplementationSpec::most_parameters):
/// with ties across the edges of all shares, and a norm of 25 blocks.
std::vector<Case> as_large_as_shares() {
    Case run;
    run.tensors = {{"a", 700'001, false}, {"b", 9, true}, {"c", 299'990, false}};
    run.workers = 2;
    run.density = 0.1;
    run.beta1 = 0.9;
    run.beta2 = 0.95;
    run.bias_correction = problem::BiasCorrection::adam;
    run.clip_norm = 1.0;
    run.data = problem::DataClass::normal;
    run.steps = 2;
    run.chosen_place = 3 * (run.workers - 1);
    Case larger = run;
    larger.tensors = {{"a", 9'999'990, false}, {"b", 9, true}};
    larger.workers = 1;
    larger.density = 0.01;
    larger.clip_norm = 0.0;
    larger.data = problem::DataClass::ties;
    larger.chosen_place = 0;
    // Groups of two sizes, which would cut pieces of two lengths if each took its own.
    Case in_groups = larger;
    in_groups.tensors = {{"a", 2'600'000, false}};
    in_groups.workers = 3;
    in_groups.groups = {2, 1};
    in_groups.density = 0.02;
    return {run, larger, in_groups};
}

/// Segments that the local pass looks at for the next mask, with ties over the words that they share.
Case tied_over_shared_words() {
    Case run;
    run.tensors.clear();
    constexpr Index size = problem::tunable<Index>("small_segment") + 63;
    for (int i = 0; i < 8; ++i)
        run.tensors.push_back({"t" + std::to_string(i), size, false});
    run.density = 0.5;
    run.data = problem::DataClass::dyadic;
    run.steps = 4;
    return run;
}

/// The same segments, of which few are selected, and other numbers from step to step.
Case few_of_watched() {
    Case run = tied_over_shared_words();
    run.density = 0.01;
    run.schedule = DensityRule::jumps;
    run.data = problem::DataClass::normal;
    return run;
}

/// More steps than an 8-bit counter holds, with a correction that still shows the step.
Case many_steps() {
    Case run;
    run.tensors = {{"a", 5, false}, {"b", 2, true}};
    run.workers = 2;
    run.density = 0.4;
    run.schedule = DensityRule::jumps;
    run.beta1 = 0.9;
    run.beta2 = 0.9995;
    run.weight_decay = 0.1;
    run.bias_correction = problem::BiasCorrection::adam;
    run.data = problem::DataClass::normal;
    run.steps = 300;
    run.chosen_place = 3 * (run.workers - 1);
    return run;
}

/// The moment becomes subnormal, then 0.
Case decays_to_nothing() {
    Case run = many_steps();
    run.beta1 = 0.5;
    run.beta2 = 0.75;
    run.weight_decay = 0.0;
    run.data = problem::DataClass::once;
    return run;
}

/// More steps than a 16-bit counter holds, on one coordinate.
Case very_many_steps() {
    Case run;
    run.beta1 = 0.9;
    run.beta2 = 0.99999;
    run.bias_correction = problem::BiasCorrection::adam;
    run.data = problem::DataClass::normal;
    run.steps = 66'000;
    return run;
}

/// The decay makes parameters grow until the third step makes infinities of them: all ranks halt.
std::vector<Case> not_finite_later() {
    std::vector<Case> all;
    for (const double clip_norm : {0.0, 0.5}) {
        Case run;
        run.tensors = {{"a", 5, false}, {"b", 2, true}};
        run.workers = 2;
        run.density = 0.1;
        run.clip_norm = clip_norm;
        run.weight_decay = 1e17;
        run.data = problem::DataClass::normal;
        run.steps = 4;
        run.chosen_place = 3 * (run.workers - 1);
        all.push_back(run);
    }
    return all;
}

/// Clipped to the norm itself, to the next double on either side of it, and to where the factor becomes 1:
/// an epsilon above.
std::vector<Case> clipped_at_the_norm() {
    Case run;
    run.tensors = {{"a", 5, false}, {"b", 2, true}};
    run.workers = 2;
    run.data = problem::DataClass::normal;
    run.clip_norm = 1.0;
    run.chosen_place = 3 * (run.workers - 1);
    const problem::Problem problem = problem_of(run);
    const Setup setup{problem, problem::ranges(problem.layout, run.workers, run.partition),
                      schedule_of(run), parameters_of(run)};
    const RunRecording history = reference_implementation()->run({setup, {step_with(run, run.workers, 1)}});
    const double norm = history.after.front().views.front().told.value().gradient_norm;
    std::vector<Case> all;
    for (const double clip_norm :
         {norm, std::nextafter(norm, 0.0), std::nextafter(norm, 2.0 * norm), norm + 1e-6}) {
        run.clip_norm = clip_norm;
        all.push_back(run);
    }
    return all;
}

/// The same for the largest parameter only, which is somewhere in [begin, end): a rank that does not look
/// there sees nothing.
Case one_not_finite_later(Index size, Index begin, Index end, double clip_norm) {
    Case run;
    run.clip_norm = clip_norm;
    run.tensors = {{"a", size - 2, false}, {"b", 2, true}};
    run.workers = 2;
    run.density = 0.1;
    run.data = problem::DataClass::normal;
    run.steps = 4;
    run.chosen_place = 3 * (run.workers - 1);
    for (;; ++run.seed) {
        const std::vector<float> w = parameters_of(run);
        const auto largest = std::ranges::max_element(w, {}, [](float value) { return std::abs(value); });
        if (const Index at = largest - w.begin(); at < begin || at >= end)
            continue;
        // At the third step it and values nearly as large exceed the largest float by 1 %.
        const double growth = std::cbrt(1.01 * static_cast<double>(std::numeric_limits<float>::max()) /
                                        std::abs(static_cast<double>(*largest)));
        run.weight_decay = (1.0 + growth) / learning_rate_of(run, 1);
        return run;
    }
}

/// overflow_by_an_update() in a word of few selected coordinates, with others of few behind it.
Case overflows_in_a_word_of_few() {
    Case run;
    run.tensors = {{"a", 63, false}, {"b", 1, true}, {"c", 20'000, false}};
    run.density = 0.01;
    run.weight_decay = 0.1;
    run.data = problem::DataClass::normal;
    run.seed = 5;
    return run;
}

std::vector<Case> beside_the_drawn() {
    std::vector<Case> all = at_the_edges();
    for (const auto& more : {as_large_as_shares(), not_finite_later(), clipped_at_the_norm()})
        all.insert(all.end(), more.begin(), more.end());
    all.push_back(one_not_finite_later(70'003, 0, 30'000, 0.0));
    all.push_back(one_not_finite_later(70'003, 40'000, 65'000, 0.5));
    all.push_back(one_not_finite_later(103, 64, 103, 0.0)); // in the last word, which is not full
    all.push_back(tied_over_shared_words());
    all.push_back(few_of_watched());
    all.push_back(overflows_in_a_word_of_few());
    all.push_back(many_steps());
    all.push_back(decays_to_nothing());
    all.push_back(very_many_steps());
    return all;
}

/// All kinds that a case without a script is of by itself.
Demands demands() {
    const gate::Kind<Case> first_of_scripts = "several restarts";
    Demands all;
    for (const auto& one : Case::kinds)
        if (&one < first_of_scripts.listed())
            all.emplace_back(one);
    return all;
}

} // namespace

std::vector<Property> reference_properties() {
    return {{0, "reference", "Every bit is the reference's (at REL: every value within its bound).",
             any_case_of_the_world, equals_the_reference, demands(), not_itself, [](Case&) {},
             beside_the_drawn()}};
}

} // namespace truestep::properties::scape
