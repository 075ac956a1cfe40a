#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <truestep/distributed/scape/backend.hpp>
#include <truestep/gpu/exchange.hpp>
#include <truestep/gpu/host_stream.hpp>

namespace truestep::gpu::scape {

/// How blocks run on the host. No option changes a bit.
struct BlockOptions {
    int threads = 256;            ///< of a block: a power of two from 32 to 1024
    std::uint64_t seed = 1;       ///< of the order in which threads and blocks take their turns
    std::int64_t group_tiles = 0; ///< of a group of selection: 1 to 16, or 0 for what suits the size
    Exchange exchange = Exchange::host;
};

/// A stream with these options. Throws truestep::Error if they are impossible.
[[nodiscard]] HostStream make_block_stream(const BlockOptions& options);

/// The device's backend in the host's memory: the same algorithms and launches, through the host's
/// form of a block, on a stream whose work is done late. It is slow, but shows on any machine what
/// a device would do. With Exchange::device its communicator is make_block_communicator()'s, over
/// the same stream. Throws truestep::Error for impossible options.
[[nodiscard]] std::unique_ptr<distributed::scape::Backend>
make_block_backend(const problem::Problem& problem, std::span<const float> parameters,
                   const BlockOptions& options, const HostStream& stream);
[[nodiscard]] inline std::unique_ptr<distributed::scape::Backend>
make_block_backend(const problem::Problem& problem, std::span<const float> parameters,
                   const BlockOptions& options = {}) {
    return make_block_backend(problem, parameters, options, make_block_stream(options));
}

/// The variants that the gate runs, which must give the same bits: two block sizes, other orders of
/// threads, other groups, with and without a stream under the exchanges. name() names each.
[[nodiscard]] const std::vector<BlockOptions>& block_variants();
[[nodiscard]] std::string name(const BlockOptions& options);

} // namespace truestep::gpu::scape
