// Small kernels for the tests of the runtime, written and started as users do.
#include "small.hpp"

namespace {

__global__ void add_one(int* values, int count) {
    const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (at < count)
        values[at] += 1;
}

/// A block's sum by halves. Without a barrier between two halves, a thread may add a value that
/// another has not written yet.
template <bool WithBarrier>
__global__ void reduce(const int* values, int* sums) {
    __shared__ int part[128];
    const unsigned thread = threadIdx.x;
    part[thread] = values[blockIdx.x * blockDim.x + thread];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (thread < half)
            part[thread] += part[thread + half];
        if (WithBarrier)
            __syncthreads();
    }
    if (thread == 0)
        sums[blockIdx.x] = part[0];
}

} // namespace

void start_add_one(int* values, int count, cudaStream_t stream) {
    add_one<<<(count + 63) / 64, 64, 0, stream>>>(values, count);
}

void start_reduce(const int* values, int* sums, int blocks, bool with_barrier, cudaStream_t stream) {
    if (with_barrier)
        reduce<true><<<blocks, 128, 0, stream>>>(values, sums);
    else
        reduce<false><<<blocks, 128, 0, stream>>>(values, sums);
}

const void* add_one_function() {
    return reinterpret_cast<const void*>(add_one);
}
