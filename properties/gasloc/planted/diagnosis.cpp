// Tries GASLoC's known bugs on a recorded run, and names those that make the recorded bits.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <truestep/gate/group.hpp>
#include <truestep/gate/hypotheses.hpp>

#include "implementation.hpp"
#include "planted.hpp"
#include "recording.hpp"

namespace truestep::properties::gasloc {

namespace {

using gate::seen_bits;
using gate::SeenBits;

SeenBits seen(const verify::gasloc::TraceReader& trace, Index round) {
    SeenBits all;
    for (const auto& shows : shown(trace.head().config.settings))
        for (int worker = 0; worker < trace.schema().workers; ++worker) {
            const auto values = trace.values(verify::gasloc::result(shows.first).kind, round, worker);
            all.push_back(values ? seen_bits(*values) : std::vector<std::uint32_t>());
        }
    return all;
}

std::optional<SeenBits> seen(const Settings& settings, const std::vector<RankRecording>& lives,
                             Index round) {
    if (!std::ranges::all_of(lives, [&](const RankRecording& life) { return life.rounds.contains(round); }))
        return std::nullopt;
    SeenBits all;
    for (const auto& shows : shown(settings))
        for (const RankRecording& life : lives)
            all.push_back(seen_bits(life.rounds.at(round).state.*shows.second));
    return all;
}

/// The recorded run up to a round, as a scenario for implementations. The trace must outlive it.
Scenario scenario_of_trace(const verify::gasloc::TraceReader& trace, Index rounds) {
    const verify::gasloc::Head& head = trace.head();
    Scenario scenario;
    scenario.settings = head.config.settings;
    scenario.workers = head.config.workers;
    scenario.size = head.config.layout.size();
    scenario.rounds = rounds;
    scenario.start = head.initial_parameters;
    scenario.steps = [&head](int worker, Index round) { return head.config.steps(worker, round); };
    scenario.gradient = [&trace](int worker, Index round, Index step) {
        return trace.input(verify::gasloc::gradient_kind(step), round, worker);
    };
    scenario.learning_rate = [&head](Index round, Index step) {
        return head.learning_rates_of(round)[static_cast<std::size_t>(step - 1)];
    };
    return scenario;
}

/// Whether all workers have the same gradients, bit for bit, at every inner step. False for one worker.
bool same_gradients(const Scenario& scenario) {
    for (Index round = 1; round <= scenario.rounds; ++round)
        for (int worker = 0; worker < scenario.workers; ++worker) {
            if (scenario.steps(worker, round) != scenario.steps(0, round))
                return false;
            for (Index step = 1; step <= scenario.steps(0, round); ++step)
                if (seen_bits(scenario.gradient(worker, round, step)) !=
                    seen_bits(scenario.gradient(0, round, step)))
                    return false;
        }
    return scenario.workers > 1;
}

} // namespace

std::vector<std::string> what_fits(const std::filesystem::path& path, const gate::FirstDifference& parted,
                                   gate::Gradients gradients) {
    const verify::gasloc::TraceReader trace(path);
    const verify::gasloc::Config& config = trace.head().config;
    const Index round = parted.step;
    Index steps = 0;
    for (Index before = 1; before <= round; ++before)
        steps += std::max<Index>(1, config.most_steps(before));
    if (const std::string why = gate::too_large_to_try(config.layout.size(), steps * config.workers);
        !why.empty())
        return {why};
    const Scenario scenario = scenario_of_trace(trace, round);
    std::vector<std::string> lines;
    if (gradients == gate::Gradients::recorded && same_gradients(scenario))
        lines.emplace_back(
            "all workers were given the same gradients, at every inner step: averaged before? "
            "A worker's are its own");
    const auto group = gate::make_thread_group(std::chrono::seconds(10));
    const auto run = [&](int number) -> std::optional<SeenBits> {
        const auto candidate = std::dynamic_pointer_cast<const Implementation>(planted(number, group));
        return candidate ? seen(config.settings, candidate->run(scenario), round) : std::nullopt;
    };
    for (std::string& line : gate::what_fits({known_bugs(), config.workers, seen(trace, round), run}))
        lines.push_back(std::move(line));
    return lines;
}

} // namespace truestep::properties::gasloc
