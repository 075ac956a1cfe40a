#include "candidate.hpp"

#include <utility>

#include <truestep/gate/record.hpp>

#include "player.hpp"

namespace truestep::properties::mapl {

const Floats& Seen::at(const std::string& key) const {
    const auto found = values.find(key);
    if (found == values.end())
        throw std::runtime_error("nothing was shown of " + key);
    return found->second;
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

OnRanks::OnRanks(std::string name, Makes makes, std::shared_ptr<const gate::Group> group, Seat seat)
    : name_(std::move(name)), makes_(std::move(makes)), group_(std::move(group)), seat_(std::move(seat)) {}

OnRanks::OnRanks(std::string name, Subjects subjects, std::shared_ptr<const gate::Group> group, Seat seat)
    : OnRanks(
          std::move(name), [subjects = std::move(subjects)](distributed::Peers&) { return subjects; },
          std::move(group), std::move(seat)) {}

std::vector<Seen> OnRanks::run(const Scenario& scenario) const {
    const int workers = scenario.run.ranks();
    std::vector<Seen> mine(static_cast<std::size_t>(workers));
    group_->run_peers(workers, [&](distributed::Peers& peers) {
        mine[static_cast<std::size_t>(peers.rank())] = play_stage(scenario, makes_(peers), peers);
    });
    return gate::exchange_records(*group_, mine);
}

} // namespace truestep::properties::mapl
