// The ends over the backends of gpu/mapl as candidates: the host's form anywhere, the devices' where there
// are some.
#include "devices.hpp"

#include <array>

#include <scape/mapl/devices.hpp>

#include "candidate.hpp"

namespace scape::mapl {

namespace {

using distributed::Peers;

/// Blocks of another size for each rank. Streams of different ranks are early and late with different work.
gpu::HostStream stream_of(int rank) {
    constexpr std::array sizes{problem::tunable(256, 64), 64, 32};
    return {sizes[static_cast<std::size_t>(rank) % sizes.size()],
            1 + 16 * static_cast<std::uint64_t>(rank)};
}

House blocks(Peers& ranks) {
    const gpu::HostStream stream = stream_of(ranks.rank());
    return {make_block_peers(ranks, stream), make_block_backend(stream)};
}

} // namespace

gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group) {
    return {std::make_shared<Candidate>("cuda-blocks", ends_in(blocks), group)};
}

} // namespace scape::mapl
