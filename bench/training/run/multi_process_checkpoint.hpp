#pragma once

#include <optional>
#include <string>

#include <truestep/distributed/communicator.hpp>

#include "checkpoint.hpp"

// Checkpoints of ranks that are processes: one file for all of them, as for threads.

namespace truestep::training {

/// Brings each rank's own part of `kept` to rank 0: its state, and the bytes that it has sent.
void bring_to_first(Checkpoint& kept, distributed::Communicator& ranks);

/// The checkpoint from which all ranks continue, or why none does, with the same text on all.
struct SharedCheckpoint {
    std::optional<Checkpoint> checkpoint;
    std::string refused;
};
[[nodiscard]] SharedCheckpoint load_together(const std::filesystem::path& path,
                                             const nlohmann::ordered_json& identity,
                                             distributed::Communicator& ranks);

} // namespace truestep::training
