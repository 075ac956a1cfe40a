// Checkpoints of MAPL, a file for each side of each boundary.
#pragma once

#include <filesystem>
#include <optional>

#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/storage/files.hpp>

namespace truestep::distributed::mapl {

/// Saves the state of one side of a boundary of a pipeline, boundaries from 0, to
/// `folder`/step-<number>/boundary-<number>-<side>.safetensors. Each side saves by itself without
/// waiting: the checkpoint is complete when the last file is there. A file is written under another
/// name, synced and renamed, so that a crash at any moment leaves it complete or absent; it is safe
/// once this has returned. Returns the folder of the step.
std::filesystem::path save(const std::filesystem::path& folder, const Settings& settings,
                           const EndState& state, Side side, int boundary,
                           storage::FileSystem& files = storage::disk());

/// The folder of the greatest step with both sides' files of this many boundaries, or none. Throws
/// truestep::Error if `folder` exists but cannot be read.
[[nodiscard]] std::optional<std::filesystem::path>
latest(const std::filesystem::path& folder, int boundaries,
       const storage::FileSystem& files = storage::disk());

/// A side's state from the folder of a step. Throws truestep::Error if it is damaged, another
/// side's, or has other settings.
[[nodiscard]] EndState load(const std::filesystem::path& checkpoint, const Settings& settings, Side side,
                            int boundary, const storage::FileSystem& files = storage::disk());

} // namespace truestep::distributed::mapl
