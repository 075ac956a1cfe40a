// Section 20: a gradient that comes in micro-batches and in buckets.
#include <algorithm>
#include <limits>

#include "generators.hpp"
#include "support.hpp"

namespace scape::properties {

namespace {

/// Whether a sum that begins with the last part has other bits anywhere.
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
    classify(trial);
    classify_parts(trial);
    const Scenario in_parts = trial.steps();
    trial.classify(order_shows(in_parts), "the order of the parts shows");
    Scenario at_once = in_parts;
    for (Action& action : at_once.actions) {
        action.parts.clear();
        action.buckets.clear();
    }
    const History& one = trial(at_once);
    const History& two = trial(in_parts);
    bool waits = false;
    for (std::size_t action = 0; action < one.after.size(); ++action)
        for (std::size_t rank = 0; rank < one.after[action].views.size(); ++rank) {
            const View& expected = one.after[action].views[rank];
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
    classify(trial);
    classify_parts(trial);
    const Case& run = trial.run();
    Scenario scenario = trial.steps(run, run.steps + 1);
    // The last step's mask does not depend on what is perturbed.
    const View with = trial(scenario).after.back().views.front();
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
    const History& disturbed = trial(scenario);
    View expected = with;
    expected.moment[chosen] += static_cast<float>(1.0 - run.beta1);
    trial.same_bits(verify::Phase::exchange,
                    "first_moment with part " + std::to_string(part + 1) + " of rank " +
                        std::to_string(rank) + " perturbed,",
                    run.steps + 1, 0, expected.moment, disturbed.after.back().views.front().moment);
}

/// Sums of parts have more bits than one, so there are fewer steps.
void needs_exact_parts(Case& run) {
    const int parts = std::clamp(run.parts, 2, 4);
    needs_exactness(run);
    run.parts = parts;
    run.steps = std::min<Index>(run.steps, 3);
}

/// Puts a value that has to be refused into a part, or values into two whose sum has to be. Returns what
/// the parts add up to.
float spoil(const Case& run, Action& action, std::size_t rank, std::size_t at) {
    const auto what = static_cast<std::uint8_t>(run.seed % 9);
    const auto part = static_cast<std::size_t>(run.chosen_place / 7 % run.parts);
    const auto spoilt = [&](std::size_t which, float value) { action.parts[which][rank][at] = value; };
    for (std::size_t which = 0; which < action.parts.size(); ++which)
        spoilt(which, -0.0F);
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
    classify(trial);
    classify_parts(trial);
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

void needs_several_parts(Case& run) {
    run.parts = std::max(run.parts, 2);
}

std::string not_the_reference(const Implementation& implementation) {
    return implementation.name() == "reference" ? "it takes its gradients at once"
                                                : only_scape(implementation);
}

std::string exact_alone(const Implementation& implementation) {
    return implementation.level() == verify::LevelKind::exact ? not_the_reference(implementation)
                                                              : "it claims no order of its sums";
}

} // namespace

std::vector<Property> parts_properties() {
    auto any_parts = usual_demands();
    any_parts.insert({{"several parts", 40},
                      {"the order of the parts shows", 1},
                      {"several buckets", 8},
                      {"buckets change", 5},
                      {"residuals that are not zero", 30}});
    auto every_part = usual_demands();
    every_part["not the last part"] = 25;
    auto refusals = usual_demands();
    refusals.insert(
        {{"the sum is too large, and no part", 5}, {"several buckets", 8}, {"not in the first step", 20}});
    return {
        {13, "parts.same_bits",
         "A gradient in parts and buckets, whatever their number, cut and order, gives the bits of its sum "
         "at once.",
         any_case, same_bits_as_at_once, any_parts, exact_alone, needs_parts},
        {7, "parts.every_part",
         "Another value in any one part of any one rank changes M on a selected coordinate by its share.",
         exact_case, every_part_counts, every_part, not_the_reference, needs_exact_parts},
        {11, "parts.refusal",
         "A part that is no number, and a sum that is too large, are refused on all ranks, and forgotten.",
         any_case, refused_with_its_parts, refusals, not_the_reference, needs_several_parts},
    };
}

} // namespace scape::properties
