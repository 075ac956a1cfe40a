#pragma once

#include <filesystem>

#include <truestep/distributed/communicator.hpp>
#include <truestep/properties/scape/implementation.hpp>

namespace truestep::properties::scape {

/// On each rank of a candidate that has saved to the folder, in which nothing else stands: once all have,
/// one file is damaged, and the candidate asked to restore what there is. Throws on all ranks if some
/// refuse what others restore.
[[nodiscard]] Outcome restored_from_damaged(Candidate& candidate, const std::filesystem::path& folder,
                                            const Damage& damage, distributed::Communicator& ranks);

} // namespace truestep::properties::scape
