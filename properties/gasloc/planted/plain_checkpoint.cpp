// Saves and restores the plain worker of GASLoC, with the known bugs of checkpoints.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <truestep/problem/error.hpp>
#include <truestep/problem/value_text.hpp>

#include "plain_worker.hpp"

namespace truestep::properties::gasloc {

namespace {

std::filesystem::path plain_file(const std::filesystem::path& folder, int rank, int workers) {
    return folder / ("plain-" + std::to_string(rank) + "-of-" + std::to_string(workers));
}

constexpr std::vector<float> State::*parts[]{&State::theta, &State::before, &State::m, &State::v};

/// The settings that must not change during a run, in one line.
std::string line_of(const Settings& settings) {
    const std::set<std::string> may_change{"alpha", "gamma", "eta", "weight_decay", "allow_unstable"};
    std::string all;
    visit_settings(settings, [&](const std::string& name, const auto& value, const auto&...) {
        if (!may_change.contains(name))
            all += name + " " + value_text(value) + ";";
    });
    return all;
}

State read_one(Number known_bug, const Settings& settings, const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::string line;
    std::getline(file, line);
    if (line != line_of(settings) && known_bug != checkpoints_settings_ignored)
        throw Error(path.string() + ": it is of " + line + " and the run of " + line_of(settings));
    State state;
    const auto number = [&file] {
        std::uint64_t value = 0;
        file.read(reinterpret_cast<char*>(&value), sizeof value);
        return value;
    };
    state.rounds = static_cast<Index>(number());
    state.s = static_cast<Index>(number());
    for (const auto part : parts) {
        (state.*part).resize(number());
        file.read(reinterpret_cast<char*>((state.*part).data()),
                  static_cast<std::streamsize>((state.*part).size() * sizeof(float)));
    }
    if (!file)
        throw Error(path.string() + ": it is not a plain state");
    return state;
}

} // namespace

void PlainWorker::save(const std::filesystem::path& folder, int rank, int workers) const {
    std::filesystem::create_directories(folder);
    std::ofstream file(plain_file(folder, rank, workers), std::ios::binary);
    file << line_of(settings_) << '\n';
    const auto put = [&file](std::uint64_t value) {
        file.write(reinterpret_cast<const char*>(&value), sizeof value);
    };
    put(static_cast<std::uint64_t>(state_.rounds));
    put(static_cast<std::uint64_t>(state_.s));
    for (const auto part : parts) {
        put((state_.*part).size());
        file.write(reinterpret_cast<const char*>((state_.*part).data()),
                   static_cast<std::streamsize>((state_.*part).size() * sizeof(float)));
    }
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
            for (const auto part : parts)
                for (std::size_t i = 0; i < (state.*part).size(); ++i)
                    (state.*part)[i] = (state.*part)[i] + (more.*part)[i];
            if (known_bug != restart_own_steps)
                state.s = std::max(state.s, more.s);
        }
        if (known_bug != restart_sums)
            for (const auto part : parts)
                for (float& value : state.*part)
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
