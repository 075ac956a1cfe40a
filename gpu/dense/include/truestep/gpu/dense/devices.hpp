// Backends of dense training on a device, and in the host's form.
#pragma once

#include <memory>

#include <truestep/distributed/dense/backend.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/host_stream.hpp>

namespace truestep::gpu::dense {

using namespace distributed::dense;

/// A worker's vectors on a device, with products by cuBLAS in fp32. What travels is in pinned memory of the
/// host, so any communicator will do. Gradients may be in the device's memory or, at the price of a copy,
/// in the host's. The host waits for each gradient's verdict, before each exchange, and for the verdict on
/// the result. Not available in builds without CUDA or cuBLAS.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const gpu::CudaStream& stream);

/// The same algorithms and launches in the host's form, on a stream whose work is done late. It is slow,
/// but shows on any machine what a device would do.
[[nodiscard]] std::unique_ptr<Backend> make_block_backend(const gpu::HostStream& stream);

} // namespace truestep::gpu::dense
