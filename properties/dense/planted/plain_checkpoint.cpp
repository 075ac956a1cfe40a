// The plain implementation's checkpoints, as text, with the known bugs of checkpoints.
#include "plain_checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <fstream>

#include <truestep/distributed/dense/agreement.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::properties::dense {

namespace {

std::filesystem::path file_of(const std::filesystem::path& folder, int rank) {
    return folder / ("rank-" + std::to_string(rank));
}

std::uint32_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

} // namespace

std::string settings_of(const Problem& problem) {
    std::string all;
    for (const auto& [what, value] : distributed::dense::words_of(problem))
        all += what + " " + value + ";";
    return all;
}

void save_plain(const std::filesystem::path& folder, const PlainState& state,
                const std::vector<std::size_t>& own, const PlainSaver& saver) {
    std::filesystem::create_directories(folder);
    std::ofstream file(file_of(folder, saver.rank));
    file << saver.ranks << ' ' << saver.run << ' ' << state.steps << '\n' << saver.settings << '\n';
    for (const std::size_t i : own)
        file << i << ' ' << bits_of(state.w[i]) << ' ' << bits_of(state.m[i]) << ' ' << bits_of(state.v[i])
             << '\n';
    if (!file.flush())
        throw Error(folder.string() + ": a checkpoint could not be written; check the disk");
}

PlainState load_plain(Bug bug, const std::filesystem::path& folder, const Problem& problem,
                      const std::vector<std::size_t>& own) {
    const auto size = static_cast<std::size_t>(layout_of(problem).size());
    PlainState state{0, Floats(size), Floats(size), Floats(size)};
    const auto wrong = [&folder](int rank, const std::string& what) {
        return Error(folder.string() + ": the file of rank " + std::to_string(rank) + " " + what +
                     "; use another checkpoint");
    };
    int ranks = 1;
    Index first_run = 0;
    std::size_t next = 0; // coordinate of the new owner, for a known bug
    for (int rank = 0; rank < ranks; ++rank) {
        std::ifstream file(file_of(folder, rank));
        Index run = 0;
        Index steps = 0;
        std::string settings;
        if (!(file >> ranks >> run >> steps >> std::ws) || !std::getline(file, settings))
            throw wrong(rank, "is missing");
        if (settings != settings_of(problem) && bug != checkpoints_settings_ignored)
            throw wrong(rank, "is of a run with " + settings + " and not " + settings_of(problem));
        if (rank == 0) {
            first_run = run;
            state.steps = steps;
        }
        if ((run != first_run || steps != state.steps) && bug != runs_mixed)
            throw wrong(rank, "is of another run or step than rank 0's");
        std::size_t i = 0;
        for (std::uint32_t w = 0, m = 0, v = 0; file >> i >> w >> m >> v;) {
            if (bug == owners_of_before && ranks != problem.ranks) {
                if (next >= own.size())
                    break;
                i = own[next++];
            }
            if (i >= size)
                throw wrong(rank, "has coordinate " + std::to_string(i) + " of a larger model");
            state.w[i] = std::bit_cast<float>(w);
            state.m[i] = std::bit_cast<float>(m);
            state.v[i] = std::bit_cast<float>(v);
        }
    }
    if (bug == count_lost)
        state.steps = 0;
    if (bug == second_moment_lost)
        std::ranges::fill(state.v, 0.0F);
    if (bug == masters_lost && problem.copies == Copies::bf16)
        for (float& w : state.w)
            w = std::bit_cast<float>(bits_of(w) & 0xffff'0000U);
    return state;
}

} // namespace truestep::properties::dense
