// Writes the recorded rounds of a GASLoC run as a trace.
#include "recording.hpp"

#include <algorithm>
#include <span>

namespace truestep::properties::gasloc {

namespace {

Index whole_rounds(const Scenario& scenario, const std::vector<RankRecording>& lives) {
    Index rounds = 0;
    while (rounds < scenario.rounds && std::ranges::all_of(lives, [&](const RankRecording& life) {
               const auto found = life.rounds.find(rounds + 1);
               return found != life.rounds.end() &&
                      found->second.state.theta.size() == static_cast<std::size_t>(scenario.size);
           }))
        ++rounds;
    return rounds;
}

verify::gasloc::Config config_of(const Scenario& scenario, Index rounds) {
    verify::gasloc::Config config{
        scenario.settings, scenario.workers, problem::Layout({{"x", scenario.size}}), 0, {}};
    if (config.settings.law == Law::given)
        config.settings.given.resize(static_cast<std::size_t>(rounds));
    for (Index round = 1; round <= rounds; ++round) {
        std::vector<Index>& steps = config.inner_steps.emplace_back();
        for (int worker = 0; worker < scenario.workers; ++worker)
            steps.push_back(scenario.steps(worker, round));
        const Graph graph = graph_of(scenario.settings, round, scenario.workers);
        if (config.settings.law == Law::given)
            config.settings.given[static_cast<std::size_t>(round - 1)] = graph;
        config.edges += static_cast<Index>(graph.size());
    }
    return config;
}

} // namespace

std::vector<std::pair<verify::gasloc::Result, std::vector<float> State::*>>
shown(const Settings& settings) {
    std::vector<std::pair<verify::gasloc::Result, std::vector<float> State::*>> all{
        {verify::gasloc::Result::first_moment, &State::m},
        {verify::gasloc::Result::second_moment, &State::v},
        {verify::gasloc::result_before(settings.momentum), &State::before},
        {verify::gasloc::Result::parameters, &State::theta}};
    std::erase_if(all, [&](const auto& one) { return !verify::gasloc::has(settings.inner, one.first); });
    return all;
}

bool record_lives(const std::filesystem::path& path, const std::string& source, const Scenario& scenario,
                  const std::vector<RankRecording>& lives) {
    const Index rounds =
        scenario.restart > 0 || scenario.size < 1 || lives.empty() ? 0 : whole_rounds(scenario, lives);
    if (rounds == 0)
        return false;
    const verify::gasloc::Config config = config_of(scenario, rounds);
    auto results = shown(scenario.settings);
    std::erase_if(results, [&](const auto& shows) { // results that the program does not show
        const State& seen = lives.front().rounds.at(1).state;
        return (seen.*shows.second).size() != seen.theta.size();
    });
    trace::Schema what = verify::gasloc::schema(config);
    what.results.clear();
    for (const auto& [which, part] : results)
        what.results.push_back(verify::gasloc::result(which));
    trace::Writer writer(path, what, source, false, trace::Replicas::none);
    writer.series("initial/parameters", std::span<const float>(scenario.start));
    std::vector<double> rates;
    for (Index round = 1; round <= rounds; ++round)
        for (Index step = 1; step <= config.most_steps(round); ++step)
            rates.push_back(scenario.learning_rate(round, step));
    writer.series("learning_rate", std::span<const double>(rates));
    const std::vector<double> edges = verify::gasloc::edges_series(config);
    writer.series("edges", std::span<const double>(edges));
    for (Index round = 1; round <= rounds; ++round) {
        writer.begin_step();
        for (Index step = 1; step <= config.most_steps(); ++step)
            for (int worker = 0; worker < scenario.workers; ++worker)
                if (step <= config.steps(worker, round))
                    writer.input(verify::gasloc::gradient_kind(step), worker,
                                 scenario.gradient(worker, round, step));
        for (const auto& shows : results)
            writer.result(verify::gasloc::result(shows.first).kind, [&](int worker) {
                return std::span<const float>(
                    lives[static_cast<std::size_t>(worker)].rounds.at(round).state.*shows.second);
            });
    }
    writer.finish();
    return true;
}

} // namespace truestep::properties::gasloc
