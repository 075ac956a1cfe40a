// ci/gpu-gate compiles and runs this first on an unknown machine: does nvcc's code run on this
// device, with this driver? Prints one line; if it fails, exits with 1 and CUDA's text.
#include <cstdio>

#include <cuda_runtime.h>

namespace {

constexpr int count = 256;

__global__ void twice(const int* from, int* to) {
    to[threadIdx.x] = 2 * from[threadIdx.x];
}

bool failed(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        std::printf("probe: %s: %s\n", what, cudaGetErrorString(status));
    return status != cudaSuccess;
}

} // namespace

int main() {
    int given[count];
    int found[count] = {};
    for (int i = 0; i < count; ++i)
        given[i] = i + 1;
    cudaDeviceProp device{};
    int* from = nullptr;
    int* to = nullptr;
    if (failed(cudaGetDeviceProperties(&device, 0), "asking for the device") || failed(cudaMalloc(&from, sizeof given), "allocating memory") ||
        failed(cudaMalloc(&to, sizeof given), "allocating memory") ||
        failed(cudaMemcpy(from, given, sizeof given, cudaMemcpyHostToDevice), "copying to the device"))
        return 1;
    twice<<<1, count>>>(from, to);
    if (failed(cudaGetLastError(), "launching a kernel") ||
        failed(cudaMemcpy(found, to, sizeof found, cudaMemcpyDeviceToHost), "running a kernel, and copying from the device"))
        return 1;
    for (int i = 0; i < count; ++i)
        if (found[i] != 2 * given[i]) {
            std::printf("probe: value %d is %d instead of %d\n", i, found[i], 2 * given[i]);
            return 1;
        }
    std::printf("probe: a kernel runs on %s, compute capability %d.%d, %d multiprocessors\n", device.name, device.major, device.minor,
                device.multiProcessorCount);
    return 0;
}
