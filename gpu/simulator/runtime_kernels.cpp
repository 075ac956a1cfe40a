// The CUDA runtime's functions for modules, kernels, devices and errors.
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include <fatbinary_section.h>

#include "runtime.hpp"

namespace truestep::simulator {

cudaError_t& last_error() {
    thread_local cudaError_t last = cudaSuccess;
    return last;
}

namespace {

struct Configuration {
    dim3 blocks;
    dim3 threads;
    std::size_t shared = 0;
    cudaStream_t stream = nullptr;
};
/// The configuration of the launch that <<< >>> is about to make.
thread_local Configuration configured;

constexpr std::size_t most_static_shared = std::size_t{48} * 1024;
constexpr unsigned most_blocks = 0x7fff'ffff;

bool one_dimension(dim3 size) {
    return size.x > 0 && size.y == 1 && size.z == 1;
}

cudaError_t launch(Device& device, const void* function, const Configuration& how, void** arguments) {
    std::shared_ptr<const Kernel> kernel;
    try {
        kernel = device.kernel(function);
    } catch (const std::exception& error) {
        device.fail(cudaErrorInvalidPtx, error.what());
        return cudaErrorInvalidPtx;
    }
    if (!kernel)
        return cudaErrorInvalidDeviceFunction;
    if (!one_dimension(how.blocks) || !one_dimension(how.threads) || how.blocks.x > most_blocks ||
        how.threads.x > kernel->most_threads)
        return cudaErrorInvalidConfiguration;
    if (how.shared != 0 || kernel->shared_bytes > most_static_shared)
        return cudaErrorInvalidValue;
    Stream& stream = device.stream(how.stream);
    if (stream.device != current_device())
        return cudaErrorInvalidResourceHandle;
    Launch made{kernel, how.blocks.x, how.threads.x, std::vector<std::uint8_t>(kernel->parameter_bytes)};
    for (std::size_t i = 0; i < kernel->parameters.size(); ++i)
        std::memcpy(made.parameters.data() + kernel->parameters[i].offset, arguments[i],
                    kernel->parameters[i].size);
    device.put(stream, std::move(made));
    return cudaSuccess;
}

const char* words_for(cudaError_t error) {
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorNotReady:
        return "device not ready";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument (the simulator knows one dimension only)";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInvalidDeviceFunction:
        return "invalid device function";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle (a stream or an event of another device than the chosen one)";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureWrongThread:
        return "a capture that another thread began";
    case cudaErrorStreamCaptureIsolation:
        return "a capture that would depend on work outside of it";
    case cudaErrorGraphExecUpdateFailure:
        return "the graph update was not performed: another topology";
    case cudaErrorIllegalState:
        return "the operation cannot be performed in the present state";
    default:
        return "an error of the simulated runtime";
    }
}

} // namespace
} // namespace truestep::simulator

using namespace truestep::simulator;

// Names and parameters are CUDA's.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    device.modules.push_back(std::make_unique<Module>());
    device.modules.back()->fat_binary = static_cast<const __fatBinC_Wrapper_t*>(wrapper)->data;
    return reinterpret_cast<void**>(device.modules.back().get());
}

void __cudaRegisterFatBinaryEnd(void** /*module*/) {}

void __cudaUnregisterFatBinary(void** /*module*/) {}

// Modules are read when they are used, so there is nothing to do.
char __cudaInitModule(void** /*module*/);
char __cudaInitModule(void** /*module*/) {
    return 1;
}

void __cudaRegisterFunction(void** module, const char* function, char* /*device_function*/,
                            const char* name, int /*threads*/, uint3* /*thread*/, uint3* /*block*/,
                            dim3* /*block_size*/, dim3* /*grid_size*/, int* /*warp_size*/) {
    reinterpret_cast<Module*>(module)->names[function] = name;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
    return cudaSuccess;
}

unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, size_t shared, void* stream) {
    configured = {blocks, threads, shared, static_cast<cudaStream_t>(stream)};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, size_t* shared, void* stream) {
    *blocks = configured.blocks;
    *threads = configured.threads;
    *shared = configured.shared;
    *static_cast<cudaStream_t*>(stream) = configured.stream;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 blocks, dim3 threads, void** arguments,
                             size_t shared, cudaStream_t stream) {
    return on_device([&](Device& device) {
        return launch(device, function,
                      {blocks, {threads_of(threads.x), threads.y, threads.z}, shared, stream}, arguments);
    });
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void** arguments,
                               size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), blocks, threads, arguments, shared,
                            stream);
}

const char* cudaGetErrorString(cudaError_t error) {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    if (error == cudaSuccess || error != device.failed())
        return words_for(error);
    thread_local std::string kept;
    kept = device.why();
    return kept.c_str();
}

cudaError_t cudaGetLastError() {
    return std::exchange(last_error(), cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
    return last_error();
}

cudaError_t cudaGetDeviceCount(int* count) {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    device.read_modules();
    *count = all_devices;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (device < 0 || device >= all_devices)
        return say(cudaErrorInvalidDevice);
    *properties = {};
    std::strcpy(properties->name, "simulated device (gpu/simulator)");
    properties->major = 9;
    properties->multiProcessorCount = 1;
    properties->warpSize = lanes;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= all_devices)
        return say(cudaErrorInvalidDevice);
    current_device() = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
    *device = current_device();
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int /*device*/, int /*peer*/) {
    *can = 1; // but access has not been enabled (cudaDeviceEnablePeerAccess), and kernels may not
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
    if (device < 0 || device >= all_devices)
        return say(cudaErrorInvalidDevice);
    std::snprintf(id, static_cast<std::size_t>(size), "simulated:%d", device);
    return cudaSuccess;
}

// gpu/availability.cpp calls this where the simulator is linked.
void truestep_simulator_schedule(std::uint64_t seed);
void truestep_simulator_schedule(std::uint64_t seed) {
    set_schedule(seed);
}

} // extern "C"
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
