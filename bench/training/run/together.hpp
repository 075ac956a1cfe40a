#pragma once

#include <optional>
#include <string>

#include <truestep/distributed/communicator.hpp>

#include "checkpoint.hpp"

// Checkpoints of ranks that are processes: one file for all of them, as threads have it.

namespace truestep::training {

/// Brings to rank 0 what every rank has of its own in `kept`: its state, and what it has sent.
void bring_to_first(Checkpoint& kept, distributed::Communicator& ranks);

/// What all ranks go on from, or why none of them does, in the same words on all.
struct Together {
    std::optional<Checkpoint> checkpoint;
    std::string refused;
};
[[nodiscard]] Together load_together(const std::filesystem::path& path,
                                     const nlohmann::ordered_json& identity,
                                     distributed::Communicator& ranks);

} // namespace truestep::training
