#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/host_stream.hpp>

namespace truestep::gpu {

/// Peers for messages in a device's memory, over any others: threads that share a device, or processes.
/// Those of the traffic `on_device` go by way of pinned memory of the host; `ranks` carries them and has to
/// outlive this. In builds without CUDA there are none. With a device for each rank, nccl.hpp has others.
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_cuda_peers(distributed::Peers& ranks, const CudaStream& stream,
                std::vector<distributed::Traffic> on_device = {distributed::Traffic::parameters});

/// What stands in the device's memory once the work is done that is on the stream now, copied out behind
/// it; where it can be read is known when the function that this returns has returned, until that is gone.
[[nodiscard]] std::function<const std::byte*()> copied_out(const CudaStream& stream, const void* from,
                                                           std::size_t bytes);

/// Their form for the host.
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_block_peers(distributed::Peers& ranks, const HostStream& stream,
                 std::vector<distributed::Traffic> on_machine = {distributed::Traffic::parameters});

} // namespace truestep::gpu
