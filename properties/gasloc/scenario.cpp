// Builds a GASLoC run from a case: graphs, gradients, learning rates, restarts and bad values.
#include "scenario.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <truestep/problem/mix64.hpp>

namespace truestep::properties::gasloc {

namespace {

/// Mixes three numbers into one.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    using problem::mix64;
    return mix64(mix64(mix64(a + 0x9e3779b97f4a7c15U) ^ b) ^ c);
}

/// Graphs with edges of different weights and with workers that meet no other, which no law makes.
std::vector<Graph> given_graphs(const Case& run) {
    // They have to fit the smaller number of workers before and after a restart.
    const auto workers = static_cast<int>(run.to > 0 ? std::min(run.workers, run.to) : run.workers);
    std::vector<Graph> graphs(static_cast<std::size_t>(std::min<Index>(run.rounds, 8)));
    for (std::size_t round = 0; round < graphs.size(); ++round)
        for (int a = 0; a < workers; ++a)
            for (int b = a + 1; b < workers; ++b) {
                const std::uint64_t drawn =
                    mixed(static_cast<std::uint64_t>(run.seed), round,
                          static_cast<std::uint64_t>(a) * 1000 + static_cast<std::uint64_t>(b));
                constexpr double weights[]{1.0, 0.5, 0.25, 0.75};
                if (drawn % 2 == 0)
                    graphs[round].push_back({a, b, weights[drawn / 2 % 4]});
            }
    return graphs;
}

} // namespace

Index Scenario::most_steps(Index round) const {
    Index most = 0;
    for (int worker = 0; worker < workers_in(round); ++worker)
        most = std::max(most, steps(worker, round));
    return most;
}

std::vector<Scenario::Floats> Scenario::gradients(int worker, Index round) const {
    std::vector<Floats> all;
    for (Index step = 1; step <= steps(worker, round); ++step)
        all.push_back(gradient(worker, round, step));
    return all;
}

bool Scenario::skips(int worker, Index round) const {
    for (const Floats& values : gradients(worker, round))
        if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
            return true;
    return false;
}

std::vector<double> Scenario::learning_rates(Index round) const {
    std::vector<double> all;
    for (Index step = 1; step <= most_steps(round); ++step)
        all.push_back(learning_rate(round, step));
    return all;
}

Scenario scenario_of(const Case& run) {
    const auto seed = static_cast<std::uint64_t>(run.seed);
    Scenario scenario;
    Settings& settings = scenario.settings;
    settings.inner = run.inner;
    settings.hyper.beta1 = run.beta1;
    settings.hyper.beta2 = run.beta2;
    settings.hyper.epsilon = run.epsilon;
    settings.hyper.weight_decay = run.decay;
    settings.hyper.bias_correction = run.bias;
    settings.eta = run.eta;
    settings.alpha = run.alpha;
    settings.gamma = run.gamma;
    settings.momentum = run.momentum;
    settings.law = run.law;
    settings.seed = seed;
    settings.allow_unstable = true; // a few rounds have one right answer
    if (run.law == Law::given)
        settings.given = given_graphs(run);
    scenario.workers = static_cast<int>(run.workers);
    scenario.size = run.size;
    scenario.rounds = run.rounds;
    scenario.start = problem::initial_parameters(run.data, seed, run.size);
    if (run.data == problem::DataClass::zeros) // of both signs
        for (std::size_t i = 0; i < scenario.start.size(); i += 3)
            scenario.start[i] = -0.0F;
    if (run.overflow > 0 && run.size > 0)
        scenario.start[static_cast<std::size_t>(run.size / 3)] = std::numeric_limits<float>::max();
    scenario.steps = [run, seed](int worker, Index round) {
        return run.uneven == 0 ? run.steps
                               : static_cast<Index>(mixed(seed, static_cast<std::uint64_t>(worker),
                                                          static_cast<std::uint64_t>(round)) %
                                                    static_cast<std::uint64_t>(run.steps + 1));
    };
    scenario.gradient = [run, seed, steps = scenario.steps](int worker, Index round, Index step) {
        // Each inner step has its own gradients.
        auto values = problem::gradient(run.data, seed, worker, (round - 1) * 1'000 + step, run.size);
        // In the last step, so that the steps before it have to be undone.
        const auto skipping = static_cast<int>(seed % static_cast<std::uint64_t>(run.workers));
        if (round == run.skip && worker == skipping && run.size > 0 && step == steps(worker, round))
            values[static_cast<std::size_t>(run.size / 2)] = seed % 2 == 0
                                                                 ? std::numeric_limits<float>::infinity()
                                                                 : std::numeric_limits<float>::quiet_NaN();
        if (round == run.overflow && worker == skipping && run.size > 0)
            values[static_cast<std::size_t>(run.size / 3)] = std::numeric_limits<float>::lowest();
        return values;
    };
    // Powers of two, so that exact values stay exact.
    scenario.learning_rate = [run](Index round, Index step) {
        constexpr double factors[]{1.0, 0.5, 2.0};
        return run.lr * factors[(round + 2 * step) % 3];
    };
    scenario.restart = run.restart;
    scenario.to = static_cast<int>(run.to);
    scenario.late = run.late;
    scenario.threads = static_cast<int>(run.threads);
    return scenario;
}

} // namespace truestep::properties::gasloc
