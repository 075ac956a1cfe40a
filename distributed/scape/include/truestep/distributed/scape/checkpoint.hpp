// Checkpoints of SCAPE: a file for each rank, and a manifest.
#pragma once

#include <filesystem>
#include <optional>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/storage/files.hpp>

namespace truestep::distributed::scape {

/// Saves the state of all ranks to `folder`/step-<number>: one safetensors file a rank and a
/// manifest with their sizes and checksums. Everything is written under another name, synced, and
/// renamed at the end, so that a crash at any moment, of a process or of the machine, leaves the
/// earlier contents. Once it has returned, the checkpoint survives any crash. It replaces an
/// earlier checkpoint of the same step. All ranks call it; it throws truestep::Error on all ranks
/// if one could not write. Returns the checkpoint's path.
std::filesystem::path save_checkpoint(Scape& optimizer, Communicator& communicator,
                                      const std::filesystem::path& folder,
                                      storage::FileSystem& files = storage::disk());

/// The complete checkpoint of the greatest step in `folder`, or none. Ignores names that
/// save_checkpoint does not give. Throws truestep::Error if `folder` exists but cannot be read.
[[nodiscard]] std::optional<std::filesystem::path>
latest_checkpoint(const std::filesystem::path& folder, const storage::FileSystem& files = storage::disk());

/// Restores a checkpoint of the same model, settings and schedule, of any number of workers and
/// either partition (section 7). All ranks call it. If it is damaged, truncated, mixed up, of
/// another problem, or not the same on all ranks, throws truestep::Error on all ranks, with their
/// state unchanged.
void restore_checkpoint(Scape& optimizer, Communicator& communicator,
                        const std::filesystem::path& checkpoint,
                        const storage::FileSystem& files = storage::disk());

} // namespace truestep::distributed::scape
