#pragma once

#include <filesystem>
#include <optional>

#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/storage/files.hpp>

namespace truestep::distributed::gasloc {

/// Saves one worker's state to `folder`/round-<number>/worker-<rank>-of-<workers>.safetensors. Each worker
/// saves for itself and waits for nobody: the checkpoint is complete when the last one's file is there. A
/// file is written under another name, synced and renamed, so that a crash at any moment leaves it whole or
/// absent, and lasts once this has returned. Returns the folder of the round.
std::filesystem::path save(const std::filesystem::path& folder, const Settings& settings,
                           const State& state, int rank, int workers,
                           storage::FileSystem& files = storage::disk());

/// The folder of the greatest round of which all workers' files are there; none if there is none, or no
/// such folder. Throws truestep::Error if it cannot be read.
[[nodiscard]] std::optional<std::filesystem::path>
latest(const std::filesystem::path& folder, const storage::FileSystem& files = storage::disk());

/// A worker's state from the folder of a round, made with the same settings by any number of workers
/// (section 16). Throws truestep::Error if it is not complete, damaged, or of other settings.
[[nodiscard]] State load(const std::filesystem::path& checkpoint, const Settings& settings, int rank,
                         int workers, const storage::FileSystem& files = storage::disk());

} // namespace truestep::distributed::gasloc
