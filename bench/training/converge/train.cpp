// Implements `check --converge`.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include <truestep/gate/gate_main.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/training/convergence.hpp>
#include <truestep/training/gate_main.hpp>
#include <truestep/training/results.hpp>

namespace truestep::training {

namespace {

/// The implementations that can be trained here; prints those that are left out.
gate::Implementations who_trains(const gate::Training& asked, const ConvergeSettings& settings) {
    const gate::Learning& learning = settings.learning;
    const int ranks = settings.plan.ranks;
    gate::Implementations all;
    for (const auto& candidate : asked.candidates) {
        const bool is_base = candidate->name() == learning.base->name() && asked.candidates.size() > 1;
        if (is_base || !learning.learns(*candidate))
            continue;
        if (const std::string why = candidate->unavailable(); !why.empty())
            std::printf("%s: SKIPPED: %s\n", candidate->name().c_str(), why.c_str());
        else if (!candidate->takes(ranks))
            std::printf("%s: SKIPPED: it has no room for %d ranks\n", candidate->name().c_str(), ranks);
        else
            all.push_back(candidate);
    }
    if (all.empty())
        throw Error("--converge: nothing is left that trains; choose others with --implementation");
    return all;
}

bool is_good(const Verdict& verdict) {
    return verdict.outcome == Outcome::same || verdict.outcome == Outcome::better;
}

int train_candidates(const gate::Learning& learning, const gate::Training& asked) {
    ConvergeSettings settings = usual_convergence(learning);
    settings.pairs = static_cast<std::size_t>(asked.pairs);
    settings.base_pairs = std::max<std::size_t>(2 * settings.pairs, 10);
    const gate::Implementations candidates = who_trains(asked, settings);
    Convergence convergence(settings, asked.jobs, asked.run_seconds);
    convergence.write(asked.report, asked.json, asked.arguments); // fails before the training
    std::printf("text    %s; trigram %.3f\n", words_of(convergence.text()).c_str(),
                trigram(convergence.results().levels.floors));
    std::fflush(stdout);
    convergence.run_base();
    const std::string base = learning.base->name();
    std::printf("base    %s, %zu runs and as many twins: sigma of a difference is %.4f nats\n",
                base.c_str(), settings.base_pairs, convergence.results().sigma.of_difference);
    std::fflush(stdout);
    bool good = true;
    for (const auto& candidate : candidates)
        for (const Convergence::ImplementationVerdict& one : convergence.judge({candidate})) {
            std::printf("%s\n", text(one, base).c_str());
            std::fflush(stdout);
            good = good && is_good(one.verdict);
            convergence.write(asked.report, asked.json, asked.arguments);
        }
    return good ? 0 : 1;
}

} // namespace

gate::System with_training(gate::System system) {
    if (system.learning)
        system.train = [learning = *system.learning](const gate::Training& asked) {
            return train_candidates(learning, asked);
        };
    return system;
}

int gate_main(int count, char** values, std::vector<gate::System> systems) {
    for (gate::System& system : systems)
        system = with_training(std::move(system));
    return gate::gate_main(count, values, systems);
}

} // namespace truestep::training
