#pragma once

#include <memory>
#include <span>

#include <truestep/distributed/scape/backend.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/exchange.hpp>

namespace truestep::gpu::scape {

/// The backend on a device. Gradients may be in the device's memory or, at the price of a copy, in
/// the host's. Exchanged data is in pinned memory of the host, or on the device for communicators
/// that work on the same stream. Throws as CudaStream does.
[[nodiscard]] std::unique_ptr<distributed::scape::Backend>
make_cuda_backend(const problem::Problem& problem, std::span<const float> parameters,
                  const CudaStream& stream, Exchange exchange = Exchange::host);

} // namespace truestep::gpu::scape
