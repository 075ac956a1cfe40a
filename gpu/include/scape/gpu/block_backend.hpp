#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <scape/distributed/backend.hpp>

namespace scape::gpu {

/// How blocks run on the host. Nothing of it changes a bit.
struct BlockOptions {
    int threads = 256;            ///< of a block: a power of two from 32 to 1024
    std::uint64_t seed = 1;       ///< of the order in which threads and blocks take their turns
    std::int64_t group_tiles = 0; ///< of a group of selection: 1 to 16, or 0 for what suits the size
};

/// The device's backend in the host's memory: the same algorithms and the same launches, through the host's
/// form of a block. It is not fast; it shows on any machine what the device's would do. Throws scape::Error
/// for impossible options.
[[nodiscard]] std::unique_ptr<distributed::Backend> make_block_backend(const problem::Problem& problem,
                                                                       std::span<const float> parameters,
                                                                       const BlockOptions& options = {});

/// The ways in which a gate runs it, which must give the same bits: two sizes of blocks, other orders of
/// their threads, other groups. And a name for each.
[[nodiscard]] const std::vector<BlockOptions>& block_variants();
[[nodiscard]] std::vector<std::string> block_variant_names();

} // namespace scape::gpu
