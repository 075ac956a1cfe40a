#include "candidate.hpp"

#include <algorithm>
#include <utility>

#include <truestep/gate/record.hpp>

#include "player.hpp"

namespace truestep::mapl {

namespace {

using gate::Group;

/// With what has names.
class Packer : public gate::Record {
  public:
    using Record::Record;

    template <class Value, class Put>
    void put_map(const std::map<std::string, Value>& map, const Put& put_value) {
        put(map.size());
        for (const auto& [name, value] : map) {
            put_list(name);
            put_value(value);
        }
    }
    template <class Value, class Take>
    void take_map(std::map<std::string, Value>& map, const Take& take_value) {
        for (std::uint64_t left = number(); left > 0; --left) {
            const auto name = list<std::string>();
            map[name] = take_value();
        }
    }
};

Group::Bytes packed(const Seen& seen) {
    Packer packer;
    const auto put_list = [&packer](const auto& list) { packer.put_list(list); };
    packer.put_map(seen.values, put_list);
    packer.put_map(seen.wire, put_list);
    packer.put_map(seen.refused, put_list);
    packer.put_map(seen.states, [&packer](const EndState& state) {
        packer.put(static_cast<std::uint64_t>(state.steps));
        packer.put(static_cast<std::uint64_t>(state.micro_batches));
        for (const Floats* part :
             {&state.a, &state.m, &state.anchor, &state.rows, &state.codebooks, &state.learned})
            packer.put_list(*part);
    });
    return packer.bytes();
}

Seen unpacked(const Group::Bytes& bytes) {
    Packer packer(bytes);
    Seen seen;
    packer.take_map(seen.values, [&packer] { return packer.list<Floats>(); });
    packer.take_map(seen.wire, [&packer] { return packer.list<std::vector<std::uint8_t>>(); });
    packer.take_map(seen.refused, [&packer] { return packer.list<std::string>(); });
    packer.take_map(seen.states, [&packer] {
        EndState state;
        state.steps = static_cast<Index>(packer.number());
        state.micro_batches = static_cast<Index>(packer.number());
        for (Floats* part :
             {&state.a, &state.m, &state.anchor, &state.rows, &state.codebooks, &state.learned})
            *part = packer.list<Floats>();
        return state;
    });
    return seen;
}

} // namespace

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

OnRanks::OnRanks(std::string name, Makes makes, std::shared_ptr<const Group> group, Seat seat)
    : name_(std::move(name)), makes_(std::move(makes)), group_(std::move(group)), seat_(std::move(seat)) {}

OnRanks::OnRanks(std::string name, Subjects subjects, std::shared_ptr<const Group> group, Seat seat)
    : OnRanks(
          std::move(name), [subjects = std::move(subjects)](distributed::Peers&) { return subjects; },
          std::move(group), std::move(seat)) {}

std::vector<Seen> OnRanks::run(const Scenario& scenario) const {
    const int workers = scenario.run.ranks();
    std::vector<Seen> mine(static_cast<std::size_t>(workers));
    group_->run_peers(workers, [&](distributed::Peers& peers) {
        mine[static_cast<std::size_t>(peers.rank())] = play_stage(scenario, makes_(peers), peers);
    });
    std::vector<Seen> all;
    for (const Group::Bytes& bytes :
         group_->exchange(workers, [&](int rank) { return packed(mine[static_cast<std::size_t>(rank)]); }))
        if (!bytes.empty()) // of a process that had no part in it
            all.push_back(unpacked(bytes));
    return all;
}

} // namespace truestep::mapl
