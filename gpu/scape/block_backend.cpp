// Makes SCAPE's device backend in the host's form, and lists the block options that tests try.
#include <truestep/gpu/scape/block_backend.hpp>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/problem/error.hpp>

#include "backend.hpp"

namespace truestep::gpu::scape {

HostStream make_block_stream(const BlockOptions& options) {
    return {options.threads, options.seed};
}

std::unique_ptr<distributed::scape::Backend> make_block_backend(const problem::Problem& problem,
                                                                std::span<const float> parameters,
                                                                const BlockOptions& options,
                                                                const HostStream& stream) {
    if (options.group_tiles < 0 || options.group_tiles > most_group_tiles)
        throw Error("group of " + std::to_string(options.group_tiles) + " tiles; it must be 0 to " +
                    std::to_string(most_group_tiles));
    return std::make_unique<BlockBackend<HostMachine>>(
        problem, parameters, HostMachine(stream, options.exchange), options.group_tiles);
}

const std::vector<BlockOptions>& block_variants() {
    constexpr int most = problem::tunable<int>("block_threads"); // a tile has work for no more
    static const std::vector<BlockOptions> all{{most, 1, 0, Exchange::device},
                                               {64, 2, 1, Exchange::host},
                                               {most, 3, 3, Exchange::device},
                                               {32, 4, 0, Exchange::device}};
    return all;
}

std::string name(const BlockOptions& options) {
    return "blocks of " + std::to_string(options.threads) + ", order " + std::to_string(options.seed) +
           (options.exchange == Exchange::device ? ", streams" : "");
}

} // namespace truestep::gpu::scape
