#pragma once

#include <filesystem>
#include <optional>

#include <scape/distributed/scape.hpp>

namespace scape::distributed {

/// Saves the state of all ranks to `folder`/step-<number>: one safetensors file a rank and a manifest with
/// their sizes and checksums. All of it is written under another name, synced, and renamed at the end, so
/// that a crash at any byte leaves what was there before. To be called on all ranks; throws scape::Error on
/// all ranks if one could not write. Returns the checkpoint's path.
std::filesystem::path save_checkpoint(Scape& optimizer, Communicator& communicator,
                                      const std::filesystem::path& folder);

/// The complete checkpoint of the greatest step in `folder`; none if there is none.
[[nodiscard]] std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& folder);

/// Restores a checkpoint of the same model, settings and schedule, of any number of workers and either
/// partition (section 7). To be called on all ranks. If it is damaged, truncated, mixed up or of another
/// problem, throws scape::Error on all ranks, with their state untouched.
void restore_checkpoint(Scape& optimizer, Communicator& communicator,
                        const std::filesystem::path& checkpoint);

} // namespace scape::distributed
