// Section 20: a gradient that comes in micro-batches and in buckets.
#include <algorithm>
#include <limits>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// Whether a sum that begins with the last part differs in any bit.
bool order_shows(const Scenario& scenario) {
    return std::ranges::any_of(scenario.actions, [](const Action& action) {
        Gradients back = action.parts.empty() ? action.gradients : action.parts.back();
        for (std::size_t part = action.parts.size(); part-- > 1;)
            for (std::size_t rank = 0; rank < back.size(); ++rank)
                for (std::size_t i = 0; i < back[rank].size(); ++i)
                    back[rank][i] += action.parts[part - 1][rank][i];
        return back != action.gradients;
    });
}

void same_bits_as_at_once(Trial& trial) {
    const Scenario in_parts = trial.steps();
    trial.classify(order_shows(in_parts), "the order of the parts shows");
    Scenario at_once = in_parts;
    for (Action& action : at_once.actions) {
        action.parts.clear();
        action.buckets.clear();
    }
    const RunRecording& one = trial(at_once);
    const RunRecording& two = trial(in_parts);
    bool waits = false;
    for (std::size_t action = 0; action < one.after.size(); ++action)
        for (std::size_t rank = 0; rank < one.after[action].views.size(); ++rank) {
            const ObservedState& expected = one.after[action].views[rank];
            trial.same_view(static_cast<Index>(action) + 1, static_cast<int>(rank), expected,
                            two.after[action].views[rank]);
            waits = waits || std::ranges::any_of(expected.residual, [](float e) { return e != 0.0F; });
        }
    for (std::size_t rank = 0; rank < one.coming.size(); ++rank)
        trial.same_mask("next_mask", trial.run().steps, static_cast<int>(rank), one.coming[rank],
                        two.coming[rank]);
    trial.classify(waits, "residuals that are not zero");
}

void needs_parts(Case& run) {
    if (run.parts == 1 && run.bucket_bytes == 0)
        run.parts = 2;
}

void every_part_counts(Trial& trial) {
    const Case& run = trial.run();
    Scenario scenario = trial.steps(run, run.steps + 1);
    // The perturbation does not affect the last step's mask.
    const ObservedState with = trial(scenario).after.back().views.front();
    std::vector<Index> mask;
    for (Index index = 0; index < run.size(); ++index)
        if (selected(with.mask, index))
            mask.push_back(index);
    trial.expect(!mask.empty(), "the mask of the last step is empty");
    const auto chosen =
        static_cast<std::size_t>(mask[static_cast<std::size_t>(run.chosen_place) % mask.size()]);
    const auto rank = static_cast<std::size_t>(run.chosen_rank % run.workers);
    const auto part = static_cast<std::size_t>(run.chosen_place / 7 % run.parts);
    trial.classify(part + 1 < static_cast<std::size_t>(run.parts), "not the last part");

    Action& last = scenario.actions.back();
    last.parts[part][rank][chosen] += static_cast<float>(run.workers);
    last.gradients[rank][chosen] += static_cast<float>(run.workers);
    const RunRecording& disturbed = trial(scenario);
    ObservedState expected = with;
    expected.moment[chosen] += static_cast<float>(1.0 - run.beta1);
    trial.same_bits(verify::scape::Phase::exchange,
                    "first_moment with part " + std::to_string(part + 1) + " of rank " +
                        std::to_string(rank) + " perturbed,",
                    run.steps + 1, 0, expected.moment, disturbed.after.back().views.front().moment);
}

/// Sums of parts have more bits than one part, so there are fewer steps.
void needs_exact_parts(Case& run) {
    const int parts = std::clamp(run.parts, 2, 4);
    needs_exactness(run);
    run.parts = parts;
    needs_few_bits(run);
}

/// Puts a value that must be refused into a part, or values into two parts whose sum must be refused.
/// Returns the sum.
float spoil(const Case& run, Action& action, std::size_t rank, std::size_t at) {
    const auto what = static_cast<std::uint8_t>(run.seed % 9);
    const auto part = static_cast<std::size_t>(run.chosen_place / 7 % run.parts);
    const auto spoilt = [&](std::size_t which, float value) { action.parts[which][rank][at] = value; };
    for (std::size_t which = 0; which < action.parts.size(); ++which)
        spoilt(which, missing_part);
    if (what < 7) {
        spoilt(part, unacceptable(what));
    } else {
        const float large = what == 7 ? 0x1p56F : std::numeric_limits<float>::max();
        spoilt(part, large);
        spoilt((part + 1) % action.parts.size(), large);
    }
    float sum = action.parts.front()[rank][at];
    for (std::size_t which = 1; which < action.parts.size(); ++which)
        sum += action.parts[which][rank][at];
    return sum;
}

void refused_with_its_parts(Trial& trial) {
    const Case& run = trial.run();
    const Index refused = run.chosen_place % run.steps + 1;
    const auto rank = static_cast<std::size_t>(run.chosen_rank % run.workers);
    const Index index = refused_coordinate(run);
    trial.classify(run.seed % 9 >= 7, "the sum is too large, and no part");

    const Scenario good = trial.steps();
    Action bad = good.actions[static_cast<std::size_t>(refused - 1)];
    bad.gradients[rank][static_cast<std::size_t>(index)] =
        spoil(run, bad, rank, static_cast<std::size_t>(index));
    refused_and_forgotten(trial, good, refused, std::move(bad),
                          [&](const std::string& who, const Outcome& outcome) {
                              trial.expect(outcome.rank == static_cast<int>(rank) && outcome.index == index,
                                           who + "the refusal names the wrong place: " + outcome.text);
                          });
}

bool has_something(const Case& run, const std::vector<std::size_t>& bucket) {
    return std::ranges::any_of(bucket, [&](std::size_t tensor) { return run.tensors[tensor].size > 0; });
}

Cut without_the_last(const Case& run, Cut cut) {
    const auto last = std::find_if(cut.rbegin(), cut.rend(),
                                   [&](const auto& bucket) { return has_something(run, bucket); });
    cut.erase(std::next(last).base());
    return cut;
}

/// Invalid buckets, made from valid ones of which at least two are not empty, and what is wrong with them.
/// The cases of a single rank come last.
std::pair<std::string, InvalidBuckets> spoilt(const Case& run, Cut cut) {
    constexpr Index of_all = 4;
    constexpr Index of_one = 5;
    const Index drawn = run.chosen_place / 5 % (run.workers > 1 ? of_all + of_one : of_all);
    const int rank = drawn < of_all ? -1 : run.chosen_rank % run.workers;
    const std::size_t first = cut.front().front();
    const auto of = [&](const char* what, Cut given) {
        return std::pair(std::string(what), InvalidBuckets{rank, std::move(given)});
    };
    switch (drawn) {
    case 0:
        return of("a tensor is missing", without_the_last(run, cut));
    case 1:
    case 4:
        cut.push_back({first});
        return of("a tensor comes twice", cut);
    case 2:
        if (run.chosen_place % 2 == 0) { // with others between
            cut[0].insert(cut[0].end(), cut[1].begin(), cut[1].end());
            cut.erase(std::next(cut.begin()));
        }
        cut.front().push_back(first);
        return of("a tensor stands twice in a bucket", cut);
    case 3:
        cut.push_back({run.tensors.size()});
        return of("there is no such tensor", cut);
    case 5:
        return of("one rank leaves a tensor out", without_the_last(run, cut));
    case 6:
        std::swap(cut.front(), cut.back());
        return of("one rank has another order", cut);
    case 7:
        cut[1].insert(cut[1].end(), cut[0].begin(), cut[0].end());
        cut.erase(cut.begin());
        return of("one rank has two buckets in one", cut);
    default:
        return of("one rank gives none", {});
    }
}

void wrong_buckets_end_the_step(Trial& trial) {
    const Case& run = trial.run();
    const Index wrong = run.chosen_place % run.steps + 1;
    const Scenario good = trial.steps();
    Action bad = good.actions[static_cast<std::size_t>(wrong - 1)];
    auto [what, miscut] = spoilt(run, bad.buckets);
    trial.classify(miscut.rank < 0, "buckets that are none");
    trial.classify(miscut.rank >= 0, "a rank gives other buckets");
    bad.miscut = std::move(miscut);
    try {
        refused_and_forgotten(
            trial, good, wrong, std::move(bad), [&](const std::string& who, const Outcome& outcome) {
                trial.expect(outcome.rank < 0,
                             who + "a gradient is refused, of which nothing is wrong: " + outcome.text);
            });
    } catch (const Violation& violation) {
        Violation told(what + ": " + violation.what());
        told.divergence = violation.divergence;
        told.action = violation.action;
        throw told;
    }
}

/// At least two buckets that are not empty, at every step. Few ranks and steps, since each bucket is an
/// exchange, and more would show no more.
void needs_buckets(Case& run) {
    run.workers = std::min(run.workers, 5);
    run.steps = std::min<Index>(run.steps, 3);
    const auto has_two = [&run](const Cut& cut) {
        return std::ranges::count_if(cut, [&](const auto& bucket) { return has_something(run, bucket); }) >
               1;
    };
    if (std::ranges::count_if(run.tensors, [](const auto& tensor) { return tensor.size > 0; }) < 2)
        run.tensors.push_back({"last", 3, false});
    for (Index t = 1; t <= run.steps; ++t)
        if (!has_two(cut_of(run, t))) {
            run.bucket_bytes = 4;
            run.cuts = CutRule::backward;
        }
}

void needs_several_parts(Case& run) {
    run.parts = std::max(run.parts, 2);
}

std::string not_the_reference(const Implementation& implementation) {
    return implementation.name() == "reference" ? "it takes its gradients at once"
                                                : only_scape(implementation);
}

std::string takes_buckets(const Implementation& implementation) {
    return implementation.takes_parts() ? only_scape(implementation) : "it takes its gradients at once";
}

std::string exact_alone(const Implementation& implementation) {
    return implementation.level() == verify::LevelKind::exact ? not_the_reference(implementation)
                                                              : "it claims no order of its sums";
}

} // namespace

std::vector<Property> parts_properties() {
    const Demands every_part = usual_demands({"not the last part"});
    return {
        {13, "parts.same_bits",
         "A gradient in parts and buckets, whatever their number, cut and order, gives the bits of its sum "
         "at once.",
         any_case, same_bits_as_at_once,
         usual_demands({{"several parts", 40},
                        "uneven parts",
                        "the order of the parts shows",
                        "several buckets",
                        "buckets change",
                        {"residuals that are not zero", 30}}),
         exact_alone, needs_parts},
        {7, "parts.every_part",
         "Another value in any one part of any one rank changes M on a selected coordinate by its share.",
         exact_case, every_part_counts, every_part, not_the_reference, needs_exact_parts},
        {11, "parts.refusal",
         "A part that is no number, and a sum that is too large, are refused on all ranks, and forgotten.",
         any_case, refused_with_its_parts,
         usual_demands({"the sum is too large, and no part", "several buckets", "not in the first step"}),
         not_the_reference, needs_several_parts},
        {11, "parts.buckets",
         "Buckets that differ between ranks, miss a tensor or have one twice end the step on all ranks, "
         "and "
         "change nothing.",
         any_case, wrong_buckets_end_the_step,
         usual_demands({"buckets that are none", "a rank gives other buckets", "not in the first step"}),
         takes_buckets, needs_buckets},
    };
}

} // namespace truestep::properties::scape
