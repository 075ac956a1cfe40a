#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/host_stream.hpp>

namespace truestep::gpu {

/// Peers for messages in a device's memory, over any other peers: threads that share a device, or
/// processes. Messages of the traffic `on_device` pass through pinned memory of the host. `ranks`
/// carries them and has to outlive this. Not available in builds without CUDA. For a device per
/// rank see nccl.hpp.
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_cuda_peers(distributed::Peers& ranks, const CudaStream& stream,
                std::vector<distributed::Traffic> on_device = {distributed::Traffic::parameters});

/// Copies the device's memory to the host, behind the work that is on the stream now. The returned
/// function waits for the copy and returns where to read it, for as long as the function lives.
[[nodiscard]] std::function<const std::byte*()> copied_out(const CudaStream& stream, const void* from,
                                                           std::size_t bytes);

/// The host's form.
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_block_peers(distributed::Peers& ranks, const HostStream& stream,
                 std::vector<distributed::Traffic> on_machine = {distributed::Traffic::parameters});

} // namespace truestep::gpu
