// The checkpoints of the plain implementation: numbers in a file for each rank.
#pragma once

#include <filesystem>
#include <string>

#include "plain_rules.hpp"

namespace truestep::properties::dense {

struct PlainSaver {
    int rank = 0;
    int ranks = 1;
    Index run = 0;
    std::string settings;
};
/// In one line, but for the micro-batches, which may change.
[[nodiscard]] std::string settings_of(const Problem& problem);
void save_plain(const std::filesystem::path& folder, const PlainState& state,
                const std::vector<std::size_t>& own, const PlainSaver& saver);
/// The state from the files of any number of ranks. `own` are the coordinates that the rank will own.
[[nodiscard]] PlainState load_plain(Bug bug, const std::filesystem::path& folder, const Problem& problem,
                                    const std::vector<std::size_t>& own);

} // namespace truestep::properties::dense
