// Draws the thread orders of the host's form, and makes its communicator and its peers.
#include <truestep/gpu/communicators.hpp>
#include <truestep/gpu/peers.hpp>

#include <bit>
#include <string>
#include <utility>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/staged_peers.hpp>
#include <truestep/gpu/stream_communicator.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gpu {

ThreadOrders::ThreadOrders(int threads, std::uint64_t seed) : state_(seed) {
    if (threads < warp_threads || threads > most_threads ||
        !std::has_single_bit(static_cast<unsigned>(threads)))
        throw Error("block of " + std::to_string(threads) +
                    " threads; it must be a power of two from 32 to 1024");
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

std::unique_ptr<distributed::Communicator> make_block_communicator(distributed::Communicator& ranks,
                                                                   const HostStream& stream) {
    return std::make_unique<StreamCommunicator<HostStream>>(ranks, stream);
}

std::unique_ptr<distributed::Peers> make_block_peers(distributed::Peers& ranks, const HostStream& stream,
                                                     std::vector<distributed::Traffic> on_machine) {
    return std::make_unique<StagedPeers<HostMachine>>(ranks, HostMachine(stream, Exchange::host),
                                                      std::move(on_machine));
}

} // namespace truestep::gpu
