// Properties 1, 7 and 12 of section 8: what went in comes out, on every rank.
#include <cmath>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// The input and the output of a step on one coordinate, summed over all ranks. Sums instead of means
/// need no division, so any number of ranks will do.
struct Balance {
    double went_in = 0.0;
    double came_out = 0.0;
    double magnitude = 0.0; ///< of what went in
};

Balance balance(const Case& run, const RecordedRun& ran, std::size_t step, Index index) {
    const auto at = static_cast<std::size_t>(index);
    const auto b1 = static_cast<double>(static_cast<float>(run.beta1));
    const auto a1 = static_cast<double>(static_cast<float>(1.0 - run.beta1));
    Balance sum;
    for (int rank = 0; rank < run.workers; ++rank) {
        const auto of_rank = static_cast<std::size_t>(rank);
        const ObservedState& was = before(ran, step, rank);
        const ObservedState& is = ran.history.after[step].views[of_rank];
        for (const double part :
             {b1 * static_cast<double>(was.moment[at]),
              a1 * static_cast<double>(ran.scenario.actions[step].gradients[of_rank][at]),
              static_cast<double>(was.residual[at])}) {
            sum.went_in += part;
            sum.magnitude += std::abs(part);
        }
        sum.came_out += static_cast<double>(is.moment[at]) + static_cast<double>(is.residual[at]);
    }
    return sum;
}

void holds_exactly(Trial& trial) {
    const Case& run = trial.run();
    trial(trial.steps());
    const RecordedRun& ran = trial.runs().back();
    for (std::size_t step = 0; step < ran.history.after.size(); ++step)
        for (Index index = 0; index < run.size(); ++index) {
            const Balance sum = balance(run, ran, step, index);
            trial.expect_at(sum.came_out == sum.went_in, static_cast<Index>(step) + 1, index,
                            "over all ranks b1*m + (1-b1)*g + e was " + std::to_string(sum.went_in) +
                                ", M + e is " + std::to_string(sum.came_out));
        }
}

void holds_within_its_roundings(Trial& trial) {
    const Case& run = trial.run();
    trial(trial.steps());
    const RecordedRun& ran = trial.runs().back();
    // Each c takes a product, two sums and the other product; then come P - 1 sums and a division. What
    // underflows adds half a unit of the smallest number each time, P times in the division. e5m2 takes one
    // more: if c is much larger than what saturates, the rest of it is rounded. If the owner rounds the
    // mean, too, the loss is multiplied by P and added to its residual.
    const problem::Payload format = problem::format_of(run.payload);
    const double roundings = (format == problem::Payload::e5m2 ? 5.0 : 4.0) +
                             (problem::rounds_mean(run.payload) ? 2.0 : 0.0) + run.workers;
    // The residual holds exactly what rounding takes, but what is added is larger by as much: in e5m2 up to
    // twice, if a c of half the least number is rounded up to that number.
    const double larger = format == problem::Payload::fp32   ? 1.001
                          : format == problem::Payload::bf16 ? 1.01
                                                             : 2.01;
    for (std::size_t step = 0; step < ran.history.after.size(); ++step)
        for (Index index = 0; index < run.size(); ++index) {
            const Balance sum = balance(run, ran, step, index);
            const double bound =
                0x1p-24 * roundings * sum.magnitude * larger + 0x1p-149 * 4.0 * run.workers;
            trial.expect_at(std::abs(sum.came_out - sum.went_in) <= bound, static_cast<Index>(step) + 1,
                            index,
                            "over all ranks M + e is off by " +
                                std::to_string(std::abs(sum.came_out - sum.went_in) / bound) +
                                " times what its roundings allow");
        }
}

void every_rank_counts(Trial& trial) {
    const Case& run = trial.run();
    Scenario scenario = trial.steps(run, run.steps + 1);
    // The perturbation does not affect the last step's mask.
    const RunRecording& undisturbed = trial(scenario);
    const ObservedState& with = undisturbed.after.back().views.front();
    std::vector<Index> mask;
    for (Index index = 0; index < run.size(); ++index)
        if (selected(with.mask, index))
            mask.push_back(index);
    trial.expect(!mask.empty(), "the mask of the last step is empty");
    const Index chosen = mask[static_cast<std::size_t>(run.chosen_place) % mask.size()];
    const auto rank = static_cast<std::size_t>(run.chosen_rank % run.workers);

    scenario.actions.back().gradients[rank][static_cast<std::size_t>(chosen)] +=
        static_cast<float>(run.workers);
    const RunRecording& disturbed = trial(scenario);
    ObservedState expected = with;
    expected.moment[static_cast<std::size_t>(chosen)] += static_cast<float>(1.0 - run.beta1);
    const ObservedState& got = disturbed.after.back().views.front();
    trial.same_bits(verify::scape::Phase::exchange,
                    "first_moment with the gradient of rank " + std::to_string(rank) + " perturbed,",
                    run.steps + 1, 0, expected.moment, got.moment);
    for (std::size_t other = 0; other < disturbed.after.back().views.size(); ++other)
        trial.same_bits(verify::scape::Phase::residual,
                        "residual with the gradient of rank " + std::to_string(rank) + " perturbed,",
                        run.steps + 1, static_cast<int>(other),
                        undisturbed.after.back().views[other].residual,
                        disturbed.after.back().views[other].residual);
}

void needs_a_silent_rank(Case& run) {
    needs_exactness(run);
    run.silent = run.chosen_rank % run.workers;
}

} // namespace

std::vector<Property> conservation_properties() {
    return {
        {1, "conservation.exact",
         "On dyadic data the sum over ranks of M + e after a step is that of b1*m + (1-b1)*g + e before "
         "it.",
         exact_case, holds_exactly, usual_demands(), only_scape, needs_exactness},
        {1, "conservation.rounding", "On any data it is so within the roundings of the sums.",
         unclipped_case, holds_within_its_roundings,
         usual_demands({"a payload of bf16", "a payload of e5m2", "a mean that is rounded"}), only_scape,
         needs_no_clipping},
        {7, "conservation.every_rank",
         "Another gradient of any one rank on a selected coordinate changes M there, by its share, and "
         "nothing else.",
         exact_case, every_rank_counts, usual_demands(), only_scape, needs_exactness},
        {12, "conservation.silent_rank", "A rank without gradients still counts in the mean.", exact_case,
         holds_exactly, usual_demands(), only_scape, needs_a_silent_rank},
    };
}

} // namespace truestep::properties::scape
