// Saves and restores the plain worker of GASLoC, with the known bugs of checkpoints.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include <truestep/gate/record.hpp>
#include <truestep/problem/error.hpp>

#include "plain_worker.hpp"

namespace truestep::properties::gasloc {

namespace {

std::filesystem::path plain_file(const std::filesystem::path& folder, int rank, int workers) {
    return folder / ("plain-" + std::to_string(rank) + "-of-" + std::to_string(workers));
}

/// The bytes of each setting that must not change during a run.
using Fixed = std::map<std::string, gate::Group::Bytes>;

struct Saved {
    Fixed settings;
    State state;

    void fields(auto& visit) { visit(settings, state); }
};

Fixed fixed(const Settings& settings) {
    const std::set<std::string> may_change{"alpha", "gamma", "eta", "weight_decay", "allow_unstable"};
    Fixed all;
    visit_settings(settings, [&](const std::string& name, const auto& value, const auto&...) {
        if (!may_change.contains(name))
            all[name] = gate::packed(value);
    });
    return all;
}

State read_one(Number known_bug, const Settings& settings, const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    auto saved = gate::unpacked<Saved>({std::istreambuf_iterator<char>(file), {}});
    for (const auto& [name, value] : fixed(settings))
        if (saved.settings[name] != value && known_bug != checkpoints_settings_ignored)
            throw Error(path.string() + ": its run had another " + name);
    return std::move(saved.state);
}

} // namespace

void PlainWorker::save(const std::filesystem::path& folder, int rank, int workers) const {
    std::filesystem::create_directories(folder);
    const gate::Group::Bytes bytes = gate::packed(Saved{fixed(settings_), state_});
    std::ofstream(plain_file(folder, rank, workers), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

State read_plain(Number known_bug, const Settings& settings, const std::filesystem::path& folder,
                 const distributed::Peers& peers) {
    const int workers = peers.size();
    int made_by = 1;
    while (!std::filesystem::exists(plain_file(folder, 0, made_by)))
        ++made_by;
    State state =
        read_one(known_bug, settings, plain_file(folder, made_by == workers ? peers.rank() : 0, made_by));
    if (made_by != workers) {
        for (int other = 1; other < made_by; ++other) {
            const State more = read_one(known_bug, settings, plain_file(folder, other, made_by));
            for (const StatePart& part : state_parts)
                for (std::size_t i = 0; i < (state.*part.values).size(); ++i)
                    (state.*part.values)[i] += (more.*part.values)[i];
            if (known_bug != restart_own_steps)
                state.s = std::max(state.s, more.s);
        }
        if (known_bug != restart_sums)
            for (const StatePart& part : state_parts)
                for (float& value : state.*part.values)
                    value = value / static_cast<float>(made_by);
    }
    if (known_bug == before_not_in_checkpoint)
        state.before = state.theta;
    if (known_bug == moments_not_in_checkpoint) {
        state.m.assign(state.m.size(), 0.0F);
        state.v.assign(state.v.size(), 0.0F);
    }
    return state;
}

} // namespace truestep::properties::gasloc
