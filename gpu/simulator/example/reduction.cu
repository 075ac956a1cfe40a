// A block's sum by halves, with a bug for the reader to find. See gpu/simulator/README.md.
#include <cstdio>
#include <vector>

__global__ void sum(const float* values, float* result) {
    __shared__ float part[256];
    const unsigned thread = threadIdx.x;
    part[thread] = values[thread];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (thread < half)
            part[thread] += part[thread + half];
#ifdef WITH_BARRIER
        __syncthreads();
#endif
    }
    if (thread == 0)
        *result = part[0];
}

int main() {
    const std::vector<float> ones(256, 1.0F);
    float *values = nullptr, *result = nullptr, answer = 0.0F;
    cudaMalloc(&values, sizeof(float) * ones.size());
    cudaMalloc(&result, sizeof(float));
    cudaMemcpy(values, ones.data(), sizeof(float) * ones.size(), cudaMemcpyHostToDevice);
    sum<<<1, 256>>>(values, result);
    const cudaError_t error = cudaMemcpy(&answer, result, sizeof(float), cudaMemcpyDeviceToHost);
    std::printf("%g, %s\n", static_cast<double>(answer), cudaGetErrorString(error));
    return error == cudaSuccess && answer == 256.0F ? 0 : 1;
}
