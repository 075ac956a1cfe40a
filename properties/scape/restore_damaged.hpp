// Has the ranks of a candidate restore a damaged checkpoint.
#pragma once

#include <filesystem>

#include <truestep/distributed/communicator.hpp>
#include <truestep/properties/scape/implementation.hpp>

namespace truestep::properties::scape {

/// Called on each rank of a candidate that has saved to the folder, which holds nothing else. Once all have
/// saved, one file is damaged and the candidate restores. Throws on all ranks if some refuse what others
/// restore.
[[nodiscard]] Outcome restored_from_damaged(RankUnderTest& candidate, const std::filesystem::path& folder,
                                            const Damage& damage, distributed::Communicator& ranks);

} // namespace truestep::properties::scape
