// Payloads of bf16 (section 21), by hand: what travels, what of it stays, and what M is made of.
#include <bit>
#include <cmath>

#include "generators.hpp"
#include "support.hpp"

namespace scape::properties {

namespace {

/// The nearer of the two neighbours in bf16; of two equally near ones, the one whose last bit is 0.
float nearest_in_bf16(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t below = bits & 0xffff'0000U;
    const auto to = [&](std::uint32_t neighbour) {
        return std::abs(static_cast<double>(std::bit_cast<float>(neighbour)) - static_cast<double>(value));
    };
    const std::uint32_t above = below + 0x1'0000U; // a step away from 0
    const bool below_is_even = (below & 0x1'0000U) == 0;
    return std::bit_cast<float>(to(below) < to(above) || (to(below) == to(above) && below_is_even) ? below
                                                                                                   : above);
}

void rounding_waits_in_the_residual(Trial& trial) {
    classify(trial);
    const Case& run = trial.run();
    const History& history = trial(trial.steps());
    const Ran& ran = trial.runs().back();
    bool anything = false;
    for (std::size_t step = 0; step < history.after.size(); ++step)
        for (Index index = 0; index < run.size(); ++index) {
            const auto at = static_cast<std::size_t>(index);
            if (!selected(history.after[step].views.front().mask, index))
                continue;
            const Index t = static_cast<Index>(step) + 1;
            float sum = 0.0F;
            for (int rank = 0; rank < run.workers; ++rank) {
                const auto of_rank = static_cast<std::size_t>(rank);
                const View& was = before(ran, step, rank);
                const float c = local(run, was.moment[at],
                                      ran.scenario.actions[step].gradients[of_rank][at], was.residual[at]);
                const float p = nearest_in_bf16(c);
                sum = rank == 0 ? p : sum + p;
                const float residual = history.after[step].views[of_rank].residual[at];
                anything = anything || residual != 0.0F;
                trial.expect_at(bits_of(residual) == bits_of(c - p), t, index,
                                "on the mask the residual is not what rounding c to bf16 took", rank);
            }
            const float M = sum / static_cast<float>(run.workers);
            trial.expect_at(bits_of(history.after[step].views.front().moment[at]) == bits_of(M), t, index,
                            "M is not the mean of what was sent, added in fp32 in the order of the ranks");
        }
    trial.classify(anything, "a rounding");
}

void needs_bf16(Case& run) {
    needs_no_clipping(run);
    run.payload = problem::Payload::bf16;
}

} // namespace

std::vector<Property> payload_properties() {
    auto with_roundings = usual_demands();
    with_roundings["a rounding"] = 40;
    return {{1, "payload.residual",
             "What rounding to bf16 takes of a payload is in the residual, and M is made of what was sent.",
             unclipped_case, rounding_waits_in_the_residual, with_roundings, only_scape, needs_bf16}};
}

} // namespace scape::properties
