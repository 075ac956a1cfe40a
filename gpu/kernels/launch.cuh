#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include <scape/gpu/block.hpp>

namespace scape::gpu {

/// Threads of a block. Any other number that a block may have gives the same bits.
constexpr int device_threads = 256;

template <class Algorithm>
__global__ void __launch_bounds__(device_threads)
    kernel(const __grid_constant__ typename Algorithm::Arguments arguments) {
    DeviceBlock<device_threads> block;
    if constexpr (std::is_empty_v<typename Algorithm::Shared>) {
        typename Algorithm::Shared none;
        Algorithm::run(block, none, arguments);
    } else {
        __shared__ typename Algorithm::Shared shared;
        Algorithm::run(block, shared, arguments);
    }
}

template <class Algorithm>
void launch(Index blocks, const typename Algorithm::Arguments& arguments, cudaStream_t stream) {
    kernel<Algorithm><<<static_cast<unsigned>(blocks), device_threads, 0, stream>>>(arguments);
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: launching a kernel: ") + cudaGetErrorString(status));
}

} // namespace scape::gpu

/// Makes the launch of an algorithm of this file's callers.
#define SCAPE_LAUNCH(Algorithm)                                                                            \
    template void scape::gpu::launch<scape::gpu::Algorithm>(                                               \
        scape::gpu::Index, const scape::gpu::Algorithm::Arguments&, cudaStream_t)
