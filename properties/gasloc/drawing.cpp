// Draws a round of a case of GASLoC: each worker's model beside the reference's.
#include <algorithm>

#include "trial.hpp"

namespace truestep::properties::gasloc {

namespace {

/// One part of a worker's state after a round; blank where the worker has none.
gate::Lane::Values texts_of(const Scenario& scenario, const RankRecording& life, Index round,
                            std::vector<float> State::*part) {
    const auto found = life.rounds.find(round);
    if (found != life.rounds.end() &&
        (found->second.state.*part).size() == static_cast<std::size_t>(scenario.size))
        return gate::texts(found->second.state.*part);
    gate::Lane::Values blanks(static_cast<std::size_t>(scenario.size), "");
    return blanks;
}

} // namespace

std::optional<gate::Drawing> drawing_of(const Scenario& scenario, const std::vector<RankRecording>& lives,
                                        Index round) {
    const int workers = scenario.workers_in(round);
    if (lives.size() < static_cast<std::size_t>(workers) ||
        scenario.size > gate::Drawing::most_coordinates || scenario.size < 1 || round < 1)
        return std::nullopt;
    const std::vector<RankRecording> expected = expected_lives(scenario);
    gate::Drawing drawing{"round " + std::to_string(round), scenario.size, workers};
    drawing.tensors = {{"x", 0, scenario.size}};
    gate::Lane before{"before", "theta at the round's begin"};
    for (int worker = 0; worker < workers; ++worker)
        before.values.push_back(round == 1 ? gate::texts(scenario.start)
                                           : texts_of(scenario, expected[static_cast<std::size_t>(worker)],
                                                      round - 1, &State::theta));
    drawing.lanes.push_back(before);
    constexpr Index most_gradients = 4;
    for (Index step = 1; step <= std::min(most_gradients, scenario.most_steps(round)); ++step) {
        gate::Lane lane{"gradient " + std::to_string(step), ""};
        for (int worker = 0; worker < workers; ++worker)
            lane.values.push_back(step <= scenario.steps(worker, round)
                                      ? gate::texts(scenario.gradient(worker, round, step))
                                      : gate::Lane::Values(static_cast<std::size_t>(scenario.size), ""));
        drawing.lanes.push_back(lane);
    }
    const auto lane = [&](const char* name, const char* title, std::vector<float> State::*part) {
        gate::Lane made{name, title};
        for (std::size_t i = 0; i < static_cast<std::size_t>(workers); ++i) {
            made.values.push_back(texts_of(scenario, lives[i], round, part));
            made.expected.push_back(texts_of(scenario, expected[i], round, part));
        }
        return made;
    };
    drawing.lanes.push_back(lane("after", "theta at its end", &State::theta));
    drawing.lanes.push_back(
        lane("momentum", "what the next round's momentum is measured from", &State::before));
    return drawing;
}

} // namespace truestep::properties::gasloc
