// Finds the known bug of dense training that makes the values of a failed trace.
#include <chrono>
#include <optional>

#include <truestep/gate/hypotheses.hpp>
#include <truestep/verify/dense/traces.hpp>

#include "planted.hpp"
#include "trial.hpp"

namespace truestep::properties::dense {

namespace {

using verify::dense::Result;

/// The recorded run up to a step, as a scenario for implementations. The trace must outlive it.
Scenario scenario_of_trace(const verify::dense::TraceReader& trace, Index steps) {
    const verify::dense::Head& head = trace.head();
    Scenario scenario;
    scenario.problem = scenario.after = head.config.problem;
    scenario.start = head.parameters;
    scenario.steps = steps;
    scenario.gradient = [&trace](const Problem& problem, Index micro_batch, Index step) {
        int rank = problem.ranks - 1;
        while (first_micro_batch(problem, rank) > micro_batch)
            --rank;
        const Index own = micro_batch - first_micro_batch(problem, rank);
        return trace.input(verify::dense::gradient_kind(own + 1), step, rank);
    };
    scenario.rates = [&head](Index step) { return head.rates_of(step); };
    return scenario;
}

} // namespace

std::vector<std::string> what_fits(const std::filesystem::path& path, const gate::FirstDifference& parted,
                                   gate::Gradients /*gradients*/) {
    const verify::dense::TraceReader trace(path);
    const verify::dense::Config& config = trace.head().config;
    const Index size = static_cast<Index>(trace.head().parameters.size());
    if (config.begin > 0)
        return {"the known bugs were not tried: the run begins after step " + std::to_string(config.begin)};
    if (std::string why = gate::too_large_to_try(size, parted.step * micro_batches_of(config.problem));
        !why.empty())
        return {std::move(why)};
    const Scenario scenario = scenario_of_trace(trace, parted.step);
    const std::pair<Result, Floats Whole::*> shown[]{{Result::parameters, &Whole::w},
                                                     {Result::first_moment, &Whole::m},
                                                     {Result::second_moment, &Whole::v}};
    gate::SeenBits recorded;
    for (const auto& [result, values] : shown) {
        const auto found = trace.values(verify::dense::result(result).kind, parted.step, 0);
        recorded.push_back(found ? gate::seen_bits(*found) : std::vector<std::uint32_t>());
    }
    const auto group = gate::make_thread_group(std::chrono::seconds(10));
    const auto run = [&](int number) -> std::optional<gate::SeenBits> {
        const auto candidate = std::dynamic_pointer_cast<const Implementation>(planted(number, group));
        const std::vector<RankRecord> all = candidate->run(scenario);
        if (!all.front().steps.contains(parted.step))
            return std::nullopt;
        const Whole whole = whole_of(all, parted.step, false, static_cast<std::size_t>(size));
        gate::SeenBits made;
        for (std::size_t i = 0; i < recorded.size(); ++i)
            made.push_back(recorded[i].empty() ? std::vector<std::uint32_t>()
                                               : gate::seen_bits(whole.*shown[i].second));
        return made;
    };
    // All ranks have the same state, which is recorded once.
    return gate::what_fits({known_bugs(), 1, recorded, run});
}

} // namespace truestep::properties::dense
