#pragma once

#include <filesystem>

#include <scape/distributed/communicator.hpp>
#include <scape/properties/implementation.hpp>

namespace scape::properties {

/// On each rank of a candidate that has saved to the folder, in which nothing else stands: once all have,
/// one file is damaged, and the candidate asked to restore what there is. Throws on all ranks if some
/// refuse what others restore.
[[nodiscard]] Outcome restored_from_damaged(Candidate& candidate, const std::filesystem::path& folder,
                                            const Damage& damage, distributed::Communicator& ranks);

} // namespace scape::properties
