// `check --converge`.
#include <algorithm>
#include <cstdio>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/properties/implementations.hpp>
#include <scape/training/convergence.hpp>
#include <scape/training/results.hpp>

namespace scape::training {

namespace {

using properties::Implementation;

/// Those that can train here, told of what is left out.
std::vector<std::shared_ptr<const Implementation>> who_trains(const gate::Training& asked, int ranks) {
    std::vector<std::shared_ptr<const Implementation>> all;
    for (const auto& one : asked.candidates) {
        const auto candidate = std::dynamic_pointer_cast<const Implementation>(one);
        if (!candidate || candidate->algorithm() != problem::Algorithm::scape ||
            (candidate->communicator() == "-" && asked.candidates.size() > 1))
            continue; // no SCAPE, or the base line itself
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

int train_candidates(const gate::Training& asked) {
    ConvergeSettings settings = usual_convergence();
    settings.pairs = static_cast<std::size_t>(asked.pairs);
    settings.base_pairs = std::max<std::size_t>(2 * settings.pairs, 10);
    const auto candidates = who_trains(asked, settings.plan.ranks);
    const auto base = properties::reference_implementation();
    Convergence convergence(settings, asked.jobs, asked.run_seconds);
    convergence.write(asked.report, asked.json, asked.arguments); // who cannot have it, is told before
    std::printf("text    %s; trigram %.3f\n", words_of(convergence.text()).c_str(),
                trigram(convergence.results().levels.floors));
    std::fflush(stdout);
    convergence.run_base(base);
    std::printf("base    %s, %zu runs and as many twins: sigma of a difference is %.4f nats\n",
                base->name().c_str(), settings.base_pairs, convergence.results().sigma.of_difference);
    std::fflush(stdout);
    bool good = true;
    for (const auto& candidate : candidates)
        for (const Convergence::Judged& one : convergence.judge({candidate})) {
            std::printf("%s\n", text(one, base->name()).c_str());
            std::fflush(stdout);
            good = good && is_good(one.verdict);
            convergence.write(asked.report, asked.json, asked.arguments);
        }
    return good ? 0 : 1;
}

} // namespace

gate::System with_training(gate::System system) {
    system.train = train_candidates;
    return system;
}

} // namespace scape::training
