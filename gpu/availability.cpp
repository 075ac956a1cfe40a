#include <scape/gpu/availability.hpp>

#if defined(SCAPE_WITH_CUDA)
#include <cuda_runtime_api.h>
#endif

namespace scape::gpu {

#if defined(SCAPE_WITH_CUDA)

Availability availability() {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return {0, std::string("no GPU: ") + cudaGetErrorString(status)};
    }
    if (devices == 0)
        return {0, "no GPU: CUDA sees no device"};
    cudaDeviceProp properties{};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, 0); failed != cudaSuccess)
        return {0, std::string("no GPU: ") + cudaGetErrorString(failed)};
    constexpr int oldest = 8;
    if (properties.major < oldest)
        return {0, "no GPU that will do: " + std::string(properties.name) + " has compute capability " +
                       std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                       "; 8.0 is the oldest"};
    return {devices, std::to_string(devices) + " x " + properties.name};
}

#else

Availability availability() {
    return {0, "no GPU: built without CUDA"};
}

#endif

} // namespace scape::gpu
