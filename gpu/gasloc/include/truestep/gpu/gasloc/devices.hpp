#pragma once

#include <memory>

#include <truestep/distributed/gasloc/backend.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/host_stream.hpp>

namespace truestep::gpu::gasloc {

using namespace problem::gasloc;
using namespace distributed::gasloc;
using problem::gasloc::Settings; // not that of <truestep/optimizer.hpp>

/// A worker's backend on a device, for peers on the same stream (gpu::make_cuda_peers or
/// make_nccl_peers). Gradients may be in the device's memory or, at the price of a copy, in the
/// host's. The host waits once in an inner step, for the verdict on its gradient, and once or twice
/// in a round. Not available in builds without CUDA.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const gpu::CudaStream& stream);

/// The same algorithms and launches in the host's form, on a stream whose work is done late, for
/// gpu::make_block_peers. It is slow, but shows on any machine what a device would do.
[[nodiscard]] std::unique_ptr<Backend> make_block_backend(const gpu::HostStream& stream);

} // namespace truestep::gpu::gasloc
