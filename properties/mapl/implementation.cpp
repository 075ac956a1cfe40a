// Runs a scenario of MAPL on a group's ranks, and reads their recordings by key.
#include "implementation.hpp"

#include <utility>

#include <truestep/gate/record.hpp>

#include "player.hpp"

namespace truestep::properties::mapl {

const Floats& RankRecording::at(const std::string& key) const {
    const auto found = values.find(key);
    if (found == values.end())
        throw std::runtime_error("nothing was shown of " + key);
    return found->second;
}

Floats halves_of(const std::vector<Id>& ids) {
    Floats all;
    for (const Id id : ids) {
        all.push_back(static_cast<float>(id >> 16U));
        all.push_back(static_cast<float>(id & 0xffffU));
    }
    return all;
}

std::string key(Index step, Index micro, const std::string& what) {
    return "step " + std::to_string(step) + ", micro-batch " + std::to_string(micro) + ": " + what;
}

std::string key(Index step, const std::string& what) {
    return "step " + std::to_string(step) + ": " + what;
}

std::string wire_key(const std::string& when, int peer) {
    return when + " to rank " + std::to_string(peer);
}

GroupImplementation::GroupImplementation(std::string name, Makes makes,
                                         std::shared_ptr<const gate::Group> group, gate::Placement seat)
    : gate::GroupImplementation<Implementation>(std::move(name), std::move(group), std::move(seat)),
      makes_(std::move(makes)) {}

GroupImplementation::GroupImplementation(std::string name, EndFactory subjects,
                                         std::shared_ptr<const gate::Group> group, gate::Placement seat)
    : GroupImplementation(
          std::move(name), [subjects = std::move(subjects)](distributed::Peers&) { return subjects; },
          std::move(group), std::move(seat)) {}

std::vector<RankRecording> GroupImplementation::run(const Scenario& scenario) const {
    const int workers = scenario.run.ranks();
    std::vector<RankRecording> mine(static_cast<std::size_t>(workers));
    group().run_peers(workers, [&](distributed::Peers& peers) {
        mine[static_cast<std::size_t>(peers.rank())] = play_stage(scenario, makes_(peers), peers);
    });
    return gate::exchange_records(group(), mine);
}

} // namespace truestep::properties::mapl
