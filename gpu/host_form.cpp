#include <scape/gpu/block_backend.hpp>

#include <bit>

#include "backend.hpp"
#include <scape/gpu/host_machine.hpp>
#include <scape/gpu/stream_communicator.hpp>

namespace scape::gpu {

ThreadOrders::ThreadOrders(int threads, std::uint64_t seed) : state_(seed) {
    constexpr std::size_t count = 16;
    std::vector<int> order(static_cast<std::size_t>(threads));
    std::iota(order.begin(), order.end(), 0);
    if (seed == 0) {
        orders_.push_back(std::move(order));
        return;
    }
    for (std::size_t number = 0; number < count; ++number) {
        for (std::size_t left = order.size(); left > 1; --left) {
            state_ = state_ * 0x5851'f42d'4c95'7f2dU + 0x1405'7b7e'f767'814fU;
            std::swap(order[left - 1], order[static_cast<std::size_t>(state_ >> 33U) % left]);
        }
        orders_.push_back(order);
    }
}

HostStream make_block_stream(const BlockOptions& options) {
    if (options.threads < warp_threads || options.threads > most_threads ||
        !std::has_single_bit(static_cast<unsigned>(options.threads)))
        throw Error("block of " + std::to_string(options.threads) +
                    " threads; it must be a power of two from 32 to 1024");
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

std::unique_ptr<distributed::Communicator> make_block_communicator(distributed::Communicator& ranks,
                                                                   const HostStream& stream) {
    return std::make_unique<StreamCommunicator<HostStream>>(ranks, stream);
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
