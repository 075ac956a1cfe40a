#include <scape/gpu/block_backend.hpp>

#include <scape/gpu/host_machine.hpp>
#include <scape/problem/error.hpp>

#include "backend.hpp"

namespace scape::gpu {

HostStream make_block_stream(const BlockOptions& options) {
    return {options.threads, options.seed};
}

std::unique_ptr<distributed::Backend> make_block_backend(const problem::Problem& problem,
                                                         std::span<const float> parameters,
                                                         const BlockOptions& options,
                                                         const HostStream& stream) {
    if (options.group_tiles < 0 || options.group_tiles > most_group_tiles)
        throw Error("group of " + std::to_string(options.group_tiles) + " tiles; it must be 0 to 16");
    return std::make_unique<BlockBackend<HostMachine>>(
        problem, parameters, HostMachine(stream, options.exchange), options.group_tiles);
}

const std::vector<BlockOptions>& block_variants() {
    static const std::vector<BlockOptions> all{{256, 1, 0, Exchange::device},
                                               {64, 2, 1, Exchange::host},
                                               {256, 3, 3, Exchange::device},
                                               {32, 4, 0, Exchange::device}};
    return all;
}

std::string name(const BlockOptions& options) {
    return "blocks of " + std::to_string(options.threads) + ", order " + std::to_string(options.seed) +
           (options.exchange == Exchange::device ? ", streams" : "");
}

} // namespace scape::gpu
