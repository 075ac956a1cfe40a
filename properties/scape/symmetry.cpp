// Property 8 of section 8: neither the order of the ranks nor a power of two in the data changes the
// result.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

std::vector<std::size_t> permutation(const Case& run) {
    std::vector<std::size_t> order(static_cast<std::size_t>(run.workers));
    std::iota(order.begin(), order.end(), std::size_t{0});
    auto number = static_cast<std::size_t>(run.chosen_place);
    for (std::size_t left = order.size(); left > 1; number /= left, --left)
        std::swap(order[left - 1], order[number % left]);
    return order;
}

void any_order_of_the_ranks(Trial& trial) {
    const auto order = permutation(trial.run());
    trial.classify(!std::is_sorted(order.begin(), order.end()), "another order");
    const Scenario scenario = trial.steps();
    Scenario other = scenario;
    for (problem::Segment& segment : other.setup.problem.segments) {
        const auto old_owner = static_cast<std::size_t>(segment.owner);
        segment.owner = static_cast<int>(std::find(order.begin(), order.end(), old_owner) - order.begin());
    }
    for (std::size_t step = 0; step < other.actions.size(); ++step)
        for (std::size_t rank = 0; rank < order.size(); ++rank)
            other.actions[step].gradients[rank] = scenario.actions[step].gradients[order[rank]];
    const RunRecording& one = trial(scenario);
    const RunRecording& two = trial(other);
    for (std::size_t step = 0; step < one.after.size(); ++step)
        for (std::size_t rank = 0; rank < order.size(); ++rank)
            trial.same_view(static_cast<Index>(step) + 1, static_cast<int>(rank),
                            one.after[step].views[order[rank]], two.after[step].views[rank]);
}

void scaled(std::vector<float>& values, float scale) {
    for (float& value : values)
        value *= scale;
}

void a_power_of_two(Trial& trial) {
    const Case& run = trial.run();
    constexpr std::array<int, 8> exponents{1, -1, 4, -4, 13, -13, 30, -30};
    const float scale =
        std::ldexp(1.0F, exponents[static_cast<std::size_t>(run.chosen_place) % exponents.size()]);
    const Scenario scenario = trial.steps();
    Scenario other = scenario;
    for (Action& action : other.actions)
        for (auto& gradient : action.gradients)
            scaled(gradient, scale);
    const RunRecording& one = trial(scenario);
    const RunRecording& two = trial(other);
    // A scale of e5m2 that was made of zeros stays the same under any factor.
    const auto of_zeros = [&](std::size_t step) {
        return problem::format_of(run.payload) == problem::Payload::e5m2 &&
               scale_of(run, trial.runs().front(), step) == -126;
    };
    for (std::size_t step = 0; step < one.after.size() && (step == 0 || !of_zeros(step)); ++step)
        for (std::size_t rank = 0; rank < one.after[step].views.size(); ++rank) {
            ObservedState expected = one.after[step].views[rank];
            scaled(expected.moment, scale);
            scaled(expected.residual, scale);
            const ObservedState& got = two.after[step].views[rank];
            expected.parameters = got.parameters; // epsilon and the decay do not scale
            trial.same_view(static_cast<Index>(step) + 1, static_cast<int>(rank), expected, got);
        }
}

} // namespace

std::vector<Property> symmetry_properties() {
    using problem::DataClass;
    const auto safe = [](Case& run) { // away from overflow and subnormals
        needs_no_clipping(run);
        if (run.data == DataClass::subnormal || run.data == DataClass::wide || run.data == DataClass::limit)
            run.data = DataClass::normal;
    };
    return {
        {8,
         "symmetry.rank_order",
         "Where sums are exact, the order of the ranks changes no bit.",
         exact_case,
         any_order_of_the_ranks,
         {"several ranks", "another order", "density below 1"},
         [](const Implementation&) { return std::string(); },
         needs_exactness},
        {8, "symmetry.scale", "Gradients times a power of two give m and e times that, in every bit.",
         unclipped_case, a_power_of_two, usual_demands(), only_scape, safe},
    };
}

} // namespace truestep::properties::scape
