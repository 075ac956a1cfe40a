// The checkpoints of the plain implementation: numbers in a file for each rank.
#pragma once

#include <filesystem>

#include "plain_rules.hpp"

namespace truestep::properties::dense {

void save_plain(const std::filesystem::path& folder, const PlainState& state,
                const std::vector<std::size_t>& own, int rank, int ranks);
/// The state from the files of any number of ranks. `own` are the coordinates that the rank will own.
[[nodiscard]] PlainState load_plain(Bug bug, const std::filesystem::path& folder, const Problem& problem,
                                    const std::vector<std::size_t>& own);

} // namespace truestep::properties::dense
