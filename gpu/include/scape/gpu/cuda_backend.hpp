#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <scape/distributed/backend.hpp>

namespace scape::gpu {

/// Where what a communicator moves stands.
enum class Exchange : std::uint8_t {
    host,   ///< in pinned memory: any communicator will do, and each exchange waits for the stream
    device, ///< in the device's: for communicators that work on the stream
};

struct CudaOptions {
    int device = 0;
    void* stream = nullptr; ///< a cudaStream_t to work on, or null for one of the backend's own
    Exchange exchange = Exchange::host;
};

/// The backend on a device. Gradients may stand in the device's memory or, at the price of a copy, in the
/// host's. Throws scape::Error where there is no such device (availability.hpp says why), and
/// std::runtime_error with CUDA's words when the device fails.
[[nodiscard]] std::unique_ptr<distributed::Backend> make_cuda_backend(const problem::Problem& problem,
                                                                      std::span<const float> parameters,
                                                                      const CudaOptions& options = {});

} // namespace scape::gpu
