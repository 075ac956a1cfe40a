// Checkpoints of dense training, a file for each rank, which any number of ranks can load.
#pragma once

#include <filesystem>
#include <optional>

#include <truestep/distributed/dense/worker.hpp>
#include <truestep/storage/files.hpp>

namespace truestep::distributed::dense {

/// Saves one rank's state to `folder`/step-<number>/rank-<rank>-of-<ranks>.safetensors. Each rank saves
/// by itself: the checkpoint is complete when the last file is there. A crash at any moment leaves a
/// file complete or absent. Returns the folder of the step.
std::filesystem::path save(const std::filesystem::path& folder, const Problem& problem,
                           const Options& options, const State& state, int rank,
                           storage::FileSystem& files = storage::disk());

/// The folder of the greatest step with the files of all ranks, or none.
[[nodiscard]] std::optional<std::filesystem::path>
latest(const std::filesystem::path& folder, const storage::FileSystem& files = storage::disk());

/// A rank's state from the folder of a step, which any number of ranks may have saved, sharded or not.
/// No bit changes on the way. Throws truestep::Error if the checkpoint is incomplete, damaged, or has
/// other settings.
[[nodiscard]] State load(const std::filesystem::path& checkpoint, const Problem& problem,
                         const Options& options, int rank,
                         const storage::FileSystem& files = storage::disk());

} // namespace truestep::distributed::dense
