#include <truestep/gpu/availability.hpp>

#include <atomic>

#if defined(TRUESTEP_WITH_CUDA)
#include <cuda_runtime_api.h>

/// Defined where the simulator is linked in place of CUDA's runtime.
extern "C" void truestep_simulator_schedule(std::uint64_t seed) __attribute__((weak));
#endif

namespace truestep::gpu {

namespace {

std::atomic<std::uint64_t> chosen = 1;

} // namespace

void choose_schedule(std::uint64_t number) {
    chosen = number;
}

#if defined(TRUESTEP_WITH_CUDA)

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
    return {devices, std::to_string(devices) + " x " + properties.name, simulated()};
}

bool simulated() {
    return &truestep_simulator_schedule != nullptr;
}

void set_schedule(int rank) {
    if (simulated())
        truestep_simulator_schedule(1 + 1024 * static_cast<std::uint64_t>(rank) + ((chosen - 1) << 32U));
}

#else

Availability availability() {
    return {0, "no GPU: built without CUDA"};
}

bool simulated() {
    return false;
}

void set_schedule(int /*rank*/) {}

#endif

} // namespace truestep::gpu
