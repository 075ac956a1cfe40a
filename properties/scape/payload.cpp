// Payloads of bf16 and e5m2 (section 21), by hand: what is sent, what stays, and what M is made of.
#include <algorithm>
#include <bit>
#include <cmath>

#include "by_hand.hpp"
#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// The nearer of the two neighbours in bf16; in a tie, the one whose last bit is 0.
float nearest_in_bf16(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t below = bits & 0xffff'0000U;
    const auto to = [&](std::uint32_t neighbour) {
        return std::abs(static_cast<double>(std::bit_cast<float>(neighbour)) - static_cast<double>(value));
    };
    const std::uint32_t above = below + 0x1'0000U; // one step away from 0
    const bool below_is_even = (below & 0x1'0000U) == 0;
    return std::bit_cast<float>(to(below) < to(above) || (to(below) == to(above) && below_is_even) ? below
                                                                                                   : above);
}

/// The nearest of the numbers j/4 * 2^n that E5M2 has after the factor 2^(15-E).
float nearest_in_e5m2(float value, int E) {
    // Larger values saturate; far above, two distances in double would be equal.
    const double scaled = std::min(std::ldexp(std::abs(static_cast<double>(value)), 15 - E), 57344.0);
    double nearest = 0.0;
    bool even = true;
    for (int n = -14; n <= 15; ++n)
        for (int j = n == -14 ? 1 : 4; j < 8; ++j) {
            const double other = std::ldexp(j, n - 2);
            const double nearer = std::abs(nearest - scaled) - std::abs(other - scaled);
            if (nearer > 0.0 || (nearer == 0.0 && !even && other < 2.0 * scaled)) {
                nearest = other;
                even = j % 2 == 0;
            } else if (other > 2.0 * scaled)
                break;
        }
    return static_cast<float>(std::copysign(std::ldexp(nearest, E - 15), static_cast<double>(value)));
}

int owner_of(const problem::Problem& problem, Index index) {
    const auto segment =
        std::ranges::find_if(problem.segments, [&](const auto& other) { return index < other.end; });
    return segment->owner;
}

void rounding_waits_in_the_residual(Trial& trial, const Scenario& scenario) {
    const Case& run = trial.run();
    const RunRecording& history = trial(scenario);
    const RecordedRun& ran = trial.runs().back();
    bool anything = false;
    bool saturates = false;
    bool owners_lose = false;
    const problem::Problem problem = problem_of(run);
    for (std::size_t step = 0; step < history.after.size(); ++step) {
        const bool scaled = problem::format_of(run.payload) == problem::Payload::e5m2;
        const int E = scaled ? scale_of(run, ran, step) : 0;
        for (Index index = 0; index < run.size(); ++index) {
            const auto at = static_cast<std::size_t>(index);
            if (!selected(history.after[step].views.front().mask, index))
                continue;
            const Index t = static_cast<Index>(step) + 1;
            const auto nearest = [&](float value) {
                return scaled ? nearest_in_e5m2(value, E) : nearest_in_bf16(value);
            };
            std::vector<float> sent;
            std::vector<float> kept;
            for (int rank = 0; rank < run.workers; ++rank) {
                const float c = local_of(run, ran, step, rank, index);
                saturates = saturates || (scaled && std::abs(c) > std::ldexp(1.75F, E));
                sent.push_back(nearest(c));
                kept.push_back(c - sent.back());
            }
            const auto P = static_cast<float>(run.workers);
            const float mean = sum_by_hand(run, sent) / P;
            float M = mean;
            if (problem::rounds_mean(run.payload)) {
                M = nearest(mean);
                const float lost = mean - M;
                float& of_owner = kept[static_cast<std::size_t>(owner_of(problem, index))];
                of_owner = of_owner + lost * P;
                owners_lose = owners_lose || lost != 0.0F;
            }
            for (int rank = 0; rank < run.workers; ++rank) {
                const auto of_rank = static_cast<std::size_t>(rank);
                const float residual = history.after[step].views[of_rank].residual[at];
                anything = anything || residual != 0.0F;
                trial.expect_at(bits_of(residual) == bits_of(kept[of_rank]), t, index,
                                problem::rounds_mean(run.payload)
                                    ? "on the mask the residual is not what rounding c took and, of the "
                                      "owner, P times what rounding the mean took"
                                    : "on the mask the residual is not what rounding c took",
                                rank);
            }
            trial.expect_at(bits_of(history.after[step].views.front().moment[at]) == bits_of(M), t, index,
                            problem::rounds_mean(run.payload)
                                ? "M is not the mean of what was sent, rounded by its owner"
                                : "M is not the mean of what was sent, added in fp32 in the order of the "
                                  "ranks");
        }
    }
    trial.classify(anything, "a rounding");
    trial.classify(owners_lose, "a mean that rounding changes");
    trial.classify(saturates, "more than E5M2 holds");
}

void rounding_waits(Trial& trial) {
    rounding_waits_in_the_residual(trial, trial.steps());
}

/// The second step has zeros, or values below 2^-126, which do not count; in some cases one rank has larger
/// values, and the third step has zeros. Around them E5M2 holds all values exactly, so that c is the
/// gradient.
void zeros_keep_the_scale(Trial& trial) {
    const Case& run = trial.run();
    Scenario scenario = trial.steps();
    const auto loud = static_cast<std::size_t>(run.chosen_rank % run.workers);
    const bool one_has_some = run.workers > 1 && run.chosen_place % 3 == 2;
    const bool none_after = one_has_some && scenario.actions.size() > 3 && run.chosen_place / 3 % 2 == 0;
    const float quiet = run.chosen_place % 2 == 0 ? 0.0F : 0x1p-130F;
    for (std::size_t step = 0; step < scenario.actions.size(); ++step)
        for (std::size_t rank = 0; rank < scenario.actions[step].gradients.size(); ++rank)
            for (float& value : scenario.actions[step].gradients[rank]) {
                const bool much = step == 1 ? one_has_some && rank == loud : step != 2 || !none_after;
                const float magnitude = (step == 1 ? 0x1p-9F : 1.0F) * (value > 0.0F ? 1.25F : 1.5F);
                value = std::copysign(much ? magnitude : quiet, value);
            }
    rounding_waits_in_the_residual(trial, scenario);
    trial.classify(!one_has_some, "a step of zeros");
    trial.classify(one_has_some, "a step of zeros but on one rank");
}

void needs_bf16(Case& run) {
    needs_no_clipping(run);
    run.payload = problem::Payload::bf16;
}

/// A single rank's mean is what it has sent, and rounding takes nothing of it.
void needs_both(Case& run) {
    needs_no_clipping(run);
    run.owners_in_turn = false;
    if (!problem::rounds_mean(run.payload))
        run.payload = problem::format_of(run.payload) == problem::Payload::e5m2
                          ? problem::Payload::e5m2_both
                          : problem::Payload::bf16_both;
}

void needs_e5m2(Case& run) {
    needs_no_clipping(run);
    run.payload = problem::Payload::e5m2;
}

void needs_steps_of_zeros(Case& run) {
    needs_e5m2(run);
    run.beta1 = 0.0;
    run.density = run.start = 1.0;
    run.schedule = DensityRule::geometric;
    run.steps = std::max<Index>(run.steps, 3);
    run.parts = 1;
}

} // namespace

std::vector<Property> payload_properties() {
    return {{1, "payload.residual",
             "What rounding to bf16 takes of a payload is in the residual, and M is made of what was sent.",
             unclipped_case, rounding_waits, usual_demands({"a rounding"}), only_scape, needs_bf16},
            {1, "payload.scale",
             "So in e5m2, whose scale is made from the greatest exponent that the ranks had in the step "
             "before.",
             unclipped_case, rounding_waits, usual_demands({"a rounding", "more than E5M2 holds"}),
             only_scape, needs_e5m2},
            {1, "payload.both",
             "Where owners round the mean, too, M is that, and P times what it takes is in the owner's "
             "residual.",
             unclipped_case, rounding_waits, usual_demands({"a rounding", "a mean that rounding changes"}),
             only_scape, needs_both},
            {1,
             "payload.zeros",
             "After a step that sends nothing of 2^-126 or more the scale of e5m2 is what it was; if one "
             "rank had something, it is that rank's.",
             unclipped_case,
             zeros_keep_the_scale,
             {"several ranks", "no power of two", "a step of zeros", "a step of zeros but on one rank"},
             only_scape,
             needs_steps_of_zeros}};
}

} // namespace truestep::properties::scape
