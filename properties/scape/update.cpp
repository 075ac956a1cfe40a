// Properties 10 and 12 of section 8, and clipping: how far a parameter moves.
#include <algorithm>
#include <cmath>

#include <truestep/verify/comparator.hpp>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

void a_late_coordinate_moves_by_one_factor(Trial& trial) {
    const Case& run = trial.run();
    const auto factor = static_cast<float>((1.0 - run.beta1) / std::sqrt(1.0 - run.beta2));
    // From zero, and with a power of two for lr, w shows u in every bit.
    Scenario scenario = trial.steps();
    scenario.setup.parameters.assign(scenario.setup.parameters.size(), 0.0F);
    const RunRecording& history = trial(scenario);
    bool late = false;
    for (std::size_t step = 0; step < history.after.size(); ++step) {
        const ObservedState& was = before(trial.runs().back(), step, 0);
        const ObservedState& is = history.after[step].views.front();
        const double rate = learning_rate_of(run, static_cast<Index>(step) + 1);
        if (rate == 0.0)
            continue; // nothing moves
        for (Index index = 0; index < run.size(); ++index) {
            const auto at = static_cast<std::size_t>(index);
            const float M = is.moment[at];
            // Only where v, the square, is neither subnormal nor infinite.
            const bool square_is_safe = std::abs(M) > 0x1p-50F && std::abs(M) < 0x1p50F;
            if (!selected(is.mask, index) || was.moment[at] != 0.0F || was.parameters[at] != 0.0F ||
                !square_is_safe)
                continue;
            late = late || step > 0;
            const float moved = -is.parameters[at] / static_cast<float>(rate);
            trial.expect_at(verify::ulp_distance(std::copysign(factor, M), moved) <= 4.0,
                            static_cast<Index>(step) + 1, index,
                            "it moved by " + std::to_string(moved) + " lr; it should be " +
                                std::to_string(factor));
        }
    }
    trial.classify(late, "late coordinates");
}

void needs_one_factor(Case& run) {
    needs_no_clipping(run);
    run.beta1 = 0.9;
    run.beta2 = run.beta2 == 0.999 ? 0.999 : 0.95;
    run.density = run.density == 1.0 ? 0.1 : run.density;
    // Otherwise the first mask is full, and no coordinate is late.
    run.warm_up = 0;
    run.schedule = DensityRule::geometric;
    run.rate = run.rate == RateRule::wild ? RateRule::constant : run.rate;
    run.steps = std::max<Index>(run.steps, 2);
    run.data = run.data == problem::DataClass::wide ? run.data : problem::DataClass::normal;
    run.bias_correction = problem::BiasCorrection::none;
    run.weight_decay = 0.0;
    run.epsilon = 0x1p-149;
}

void without_gradients_only_decay(Trial& trial) {
    const Case& run = trial.run();
    Scenario scenario = trial.steps();
    for (Action& action : scenario.actions)
        for (auto& gradient : action.gradients)
            gradient.assign(gradient.size(), 0.0F);
    const RunRecording& history = trial(scenario);
    ObservedState expected = before(trial.runs().back(), 0, 0);
    for (std::size_t step = 0; step < history.after.size(); ++step) {
        const double rate = learning_rate_of(run, static_cast<Index>(step) + 1);
        const auto decay = static_cast<float>(1.0 - rate * run.weight_decay);
        for (float& parameter : expected.parameters)
            parameter *= decay;
        expected.step = static_cast<Index>(step) + 1;
        for (std::size_t rank = 0; rank < history.after[step].views.size(); ++rank)
            trial.same_view(expected.step, static_cast<int>(rank), expected,
                            history.after[step].views[rank], false);
    }
}

/// Section 4.7, in double: M = b1*m + a1*s*ghat with s from the norm of all ranks' parts together.
void clipping_scales_the_whole(Trial& trial) {
    const Case& run = trial.run();
    const RunRecording& history = trial(trial.steps());
    const RecordedRun& ran = trial.runs().back();
    const double b1 = run.beta1;
    const double a1 = 1.0 - run.beta1;
    bool clipped = false;
    for (std::size_t step = 0; step < history.after.size(); ++step) {
        const ObservedState& is = history.after[step].views.front();
        const ObservedState& was = before(ran, step, 0);
        double squares = 0.0;
        std::vector<double> gradient(is.moment.size(), 0.0);
        std::vector<double> magnitude(is.moment.size(), 0.0);
        for (Index index = 0; index < run.size(); ++index) {
            const auto at = static_cast<std::size_t>(index);
            if (!selected(is.mask, index))
                continue;
            for (int rank = 0; rank < run.workers; ++rank) {
                const double residual = static_cast<double>(before(ran, step, rank).residual[at]);
                const auto g = static_cast<double>(
                    ran.scenario.actions[step].gradients[static_cast<std::size_t>(rank)][at]);
                gradient[at] += (g + residual / a1) / run.workers;
                magnitude[at] += (std::abs(g) + std::abs(residual) / a1) / run.workers;
            }
            squares += gradient[at] * gradient[at];
        }
        const double s = std::min(1.0, run.clip_norm / (std::sqrt(squares) + 1e-6));
        clipped = clipped || s < 1.0;
        for (Index index = 0; index < run.size(); ++index) {
            const auto at = static_cast<std::size_t>(index);
            if (!selected(is.mask, index))
                continue;
            const double inertia = b1 * static_cast<double>(was.moment[at]);
            const double expected = inertia + a1 * s * gradient[at];
            // Roundings of single precision, and of the norm where its terms cancel.
            const double bound = 1e-5 * (std::abs(inertia) + a1 * magnitude[at]) + 1e-30;
            trial.expect_at(std::abs(static_cast<double>(is.moment[at]) - expected) <= bound,
                            static_cast<Index>(step) + 1, index,
                            "M is " + shortest(is.moment[at]) + "; clipping to the norm " +
                                shortest(run.clip_norm) + " makes it " + shortest(expected));
        }
    }
    trial.classify(clipped, "clipped");
}

void needs_clipping(Case& run) {
    run.clip_norm = run.clip_norm == 0.0 ? 0.5 : run.clip_norm;
    run.payload = problem::Payload::fp32; // its rounding exceeds the differences that matter here
    run.data = run.data == problem::DataClass::sparse ? run.data : problem::DataClass::normal;
}

} // namespace

std::vector<Property> update_properties() {
    return {
        {10, "update.factor",
         "A coordinate selected for the first time moves by (1-b1)/sqrt(1-b2)*lr, whatever its residual.",
         unclipped_case, a_late_coordinate_moves_by_one_factor, usual_demands({"late coordinates"}),
         only_scape, needs_one_factor},
        {12, "update.zero_gradients", "Without gradients from the start, parameters only decay.", any_case,
         without_gradients_only_decay, usual_demands()},
        {4, "update.clip", "Clipping scales ghat by the norm over all ranks, and M follows it.", any_case,
         clipping_scales_the_whole, usual_demands({"clipped"}), only_scape, needs_clipping},
    };
}

} // namespace truestep::properties::scape
