#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/storage/safetensors.hpp>

namespace truestep::distributed::scape {

/// Writes one rank's file of a checkpoint: its residual and its range of the common vectors; on one
/// rank also the masks; for a payload of e5m2 the exponent of its last one.
void write_rank_file(storage::FileSystem& files, const std::filesystem::path& path, const RankState& state,
                     const problem::Range& range, bool with_masks, bool with_exponent);

/// Throws truestep::Error that begins with `where` if the bytes are not a mask of `size`
/// coordinates.
[[nodiscard]] Mask to_mask(const std::vector<std::uint8_t>& bytes, Index size, const std::string& where);

/// Throws truestep::Error unless the tensor has `count` values.
[[nodiscard]] std::vector<float> read_exactly(const storage::SafetensorsFile& file,
                                              const std::string& tensor, std::size_t count);

/// Section 7: the rank's own residual for the same number of workers, the ordered mean of all for
/// another.
[[nodiscard]] std::vector<float> read_residual(const std::vector<storage::SafetensorsFile>& files, int rank,
                                               int workers, std::size_t size);

/// The greatest exponent of all ranks, on which they agree, whatever the new number of ranks.
[[nodiscard]] int read_exponent(const std::vector<storage::SafetensorsFile>& files);

} // namespace truestep::distributed::scape
