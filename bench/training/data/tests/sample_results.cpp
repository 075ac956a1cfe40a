// Makes training results with every outcome and with names that need escaping, for tests.
#include "sample_results.hpp"

#include <cmath>

namespace truestep::training::support {

namespace {

Curve synthetic(const std::string& optimizer, std::uint64_t seed, double end, std::uint64_t bytes_a_step) {
    Curve curve{.optimizer = optimizer, .seed = seed, .points = {}};
    for (std::size_t step = 0; step <= 1500; step += 50) {
        const double fall = std::exp(-static_cast<double>(step) / 300.0);
        curve.points.push_back({.step = step,
                                .loss = end + ((4.2 - end) * fall) + (0.01 * static_cast<double>(seed)),
                                .bytes = bytes_a_step * step});
    }
    return curve;
}

Verdict verdict_of(Outcome outcome, double difference) {
    return {.outcome = outcome,
            .difference = difference,
            .uncertainty = 0.011,
            .z = difference / 0.003,
            .limit = 3.3,
            .margin = 0.02,
            .pairs = 3,
            .needs = outcome == Outcome::undecided ? 12U : 0U,
            .steps = 1.31,
            .why = outcome == Outcome::mistrusted  ? "seed 1 of 'a<b' does not beat the trigram"
                   : outcome == Outcome::undecided ? "needs about 12 seeds"
                                                   : ""};
}

} // namespace

TrainingResults sample_results() {
    TrainingResults results{
        .text = "synthetic, seed 1: 64 symbols, 262144 learned, 65536 measured",
        .levels = {.floors = {}, .entropy = 1.02},
        .sigma = {.of_difference = 0.01, .from = 16, .how = "16 seeds of the base line"},
        .comparisons = {},
        .curves = {},
        .maps = {},
        .made = {{"command", {"truestep", "train"}}, {"seconds", 61}}};
    const double losses[] = {4.10, 3.11, 1.62, 1.60, 1.61, 1.63, 1.64, 1.64};
    for (std::size_t order = 0; order < 8; ++order)
        results.levels.floors.push_back({.order = order, .loss = losses[order]});
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
        results.curves.push_back(synthetic("adamw dense", seed, 1.20, 4'000'000));
        results.curves.push_back(
            synthetic("scape density=0.01 correction=adam warm-up=0.1", seed, 1.31, 90'000));
        results.curves.push_back(synthetic("alone <&\"> one rank", seed, 1.45, 0));
    }
    std::size_t column = 0;
    for (const Outcome outcome :
         {Outcome::same, Outcome::worse, Outcome::better, Outcome::undecided, Outcome::mistrusted}) {
        const Verdict verdict = verdict_of(outcome, 0.005 * (2.0 - static_cast<double>(column)));
        results.comparisons.push_back({.base = "adamw dense",
                                       .candidate = "candidate a<b",
                                       .setting = "1500 steps, batch 8",
                                       .verdict = verdict});
        ++column;
    }
    TrainingResults::Map map{.title = "batch 8, warm-up < 10 %", .cells = {}};
    for (const double density : {1.0, 0.1, 0.01})
        for (const std::size_t steps : {500U, 1500U, 4500U})
            if (density < 1.0 || steps < 4500)
                map.cells.push_back(
                    {.density = density,
                     .steps = steps,
                     .verdict = verdict_of(static_cast<Outcome>(map.cells.size() % 5), density - 0.05)});
    results.maps.push_back(map);
    return results;
}

} // namespace truestep::training::support
