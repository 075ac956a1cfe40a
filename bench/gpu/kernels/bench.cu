#include "gpu/algorithms.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(bench::Fill);
TRUESTEP_LAUNCH(bench::Read);
TRUESTEP_LAUNCH(bench::AdamS);
TRUESTEP_LAUNCH(bench::AdamW);

namespace truestep::gpu::bench {

/// Holds the stream until a number of clock cycles have passed.
__global__ void hold(long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

void launch_hold(long long cycles, cudaStream_t stream) {
    hold<<<1, 1, 0, stream>>>(cycles);
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: launching a kernel: ") + cudaGetErrorString(status));
}

} // namespace truestep::gpu::bench
