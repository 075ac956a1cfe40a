// Checkpoints of GASLoC, a file for each worker.
#pragma once

#include <filesystem>
#include <optional>

#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/storage/files.hpp>

namespace truestep::distributed::gasloc {

/// Saves one worker's state to `folder`/round-<number>/worker-<rank>-of-<workers>.safetensors. Each
/// worker saves by itself without waiting: the checkpoint is complete when the last file is there.
/// A file is written under another name, synced and renamed, so that a crash at any moment leaves
/// it complete or absent; it is safe once this has returned. Returns the folder of the round.
std::filesystem::path save(const std::filesystem::path& folder, const Settings& settings,
                           const State& state, int rank, int workers,
                           storage::FileSystem& files = storage::disk());

/// The folder of the greatest round with the files of all workers, or none. Throws truestep::Error
/// if `folder` exists but cannot be read.
[[nodiscard]] std::optional<std::filesystem::path>
latest(const std::filesystem::path& folder, const storage::FileSystem& files = storage::disk());

/// A worker's state from the folder of a round, made with the same settings by any number of
/// workers (section 16). Throws truestep::Error if the checkpoint is incomplete, damaged, or has
/// other settings.
[[nodiscard]] State load(const std::filesystem::path& checkpoint, const Settings& settings, int rank,
                         int workers, const storage::FileSystem& files = storage::disk());

} // namespace truestep::distributed::gasloc
