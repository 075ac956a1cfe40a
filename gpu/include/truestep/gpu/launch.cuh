#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include <truestep/gpu/block.hpp>

namespace truestep::gpu {

/// Threads of a block. Any other number that a block may have gives the same bits.
constexpr int device_threads = 256;

/// How many blocks a multiprocessor shall hold at once, where the algorithm says so; 0 leaves it
/// open.
template <class Algorithm>
constexpr int blocks_at_once() {
    if constexpr (requires { Algorithm::blocks_at_once; })
        return Algorithm::blocks_at_once;
    else
        return 0;
}

template <class Algorithm>
__global__ void __launch_bounds__(device_threads, blocks_at_once<Algorithm>())
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
    // <<< >>> would mix up its error with one that an earlier call has left behind.
    void* given[] = {const_cast<typename Algorithm::Arguments*>(&arguments)};
    if (const cudaError_t status = cudaLaunchKernel(
            reinterpret_cast<const void*>(&kernel<Algorithm>), dim3(static_cast<unsigned>(blocks)),
            dim3(device_threads), given, 0, stream);
        status != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: launching a kernel: ") + cudaGetErrorString(status));
}

} // namespace truestep::gpu

/// Instantiates the launch of an algorithm.
#define TRUESTEP_LAUNCH(Algorithm)                                                                            \
    template void truestep::gpu::launch<truestep::gpu::Algorithm>(                                               \
        truestep::gpu::Index, const truestep::gpu::Algorithm::Arguments&, cudaStream_t)
