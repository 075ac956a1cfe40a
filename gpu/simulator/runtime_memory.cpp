// The CUDA runtime's functions for memory and copies.
#include "runtime.hpp"

using namespace truestep::simulator;

namespace {

cudaError_t allocated(void** place, void* made) {
    *place = made;
    return made == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t copy_async(Device& device, void* to, const void* from, std::size_t bytes, cudaStream_t handle) {
    Stream& stream = device.stream(handle);
    const bool to_pageable = device.addresses.pageable(to);
    const bool from_pageable = device.addresses.pageable(from);
    if (stream.capturing && (to_pageable || from_pageable)) {
        stream.spoiled = true;
        return cudaErrorStreamCaptureUnsupported;
    }
    Copy copy{to, from, bytes, nullptr};
    if (from_pageable) {
        const auto* const begin = static_cast<const std::uint8_t*>(from);
        copy.staged = std::make_shared<const std::vector<std::uint8_t>>(begin, begin + bytes);
    }
    device.put(stream, std::move(copy));
    if (to_pageable) // returns when it is there
        device.drain(stream);
    return device.failed();
}

} // namespace

// NOLINTBEGIN(readability-identifier-naming): names are CUDA's
extern "C" {

cudaError_t cudaMalloc(void** place, size_t bytes) {
    return on_device([&](Device& device) {
        if (const cudaError_t error = unless_capturing(device); error != cudaSuccess)
            return error;
        *place = nullptr;
        return bytes == 0
                   ? cudaSuccess
                   : allocated(place, device.addresses.allocate(device.memory(), bytes, current_device()));
    });
}

cudaError_t cudaFree(void* begin) {
    return give_back([&](Device& device) {
        if (begin == nullptr)
            return cudaSuccess;
        if (const cudaError_t error = unless_capturing(device); error != cudaSuccess)
            return error;
        return device.addresses.release(device.memory(), begin) ? cudaSuccess : cudaErrorInvalidValue;
    });
}

cudaError_t cudaHostAlloc(void** place, size_t bytes, unsigned /*flags*/) {
    return on_device([&](Device& device) {
        if (const cudaError_t error = unless_capturing(device); error != cudaSuccess)
            return error;
        return allocated(place, device.addresses.allocate_pinned(device.memory(), bytes));
    });
}

cudaError_t cudaMallocHost(void** place, size_t bytes) {
    return cudaHostAlloc(place, bytes, 0);
}

cudaError_t cudaFreeHost(void* begin) {
    return give_back([&](Device& device) {
        if (begin == nullptr)
            return cudaSuccess;
        if (const cudaError_t error = unless_capturing(device); error != cudaSuccess)
            return error;
        return device.addresses.release_pinned(device.memory(), begin) ? cudaSuccess
                                                                       : cudaErrorInvalidValue;
    });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* at) {
    return on_device([&](Device& device) {
        *attributes = {};
        attributes->type = cudaMemoryTypeUnregistered;
        if (device.memory().find(reinterpret_cast<std::uint64_t>(at)) == nullptr)
            return cudaSuccess;
        const bool pinned = device.addresses.pinned(at);
        attributes->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
        attributes->devicePointer = const_cast<void*>(at);
        attributes->hostPointer = pinned ? attributes->devicePointer : nullptr;
        return cudaSuccess;
    });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
    return on_device([&](Device& device) { return copy_async(device, to, from, bytes, stream); });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/) {
    return on_device([&](Device& device) {
        const cudaError_t error = copy_async(device, to, from, bytes, nullptr);
        device.drain(device.stream(nullptr));
        return device.failed() != cudaSuccess ? device.failed() : error;
    });
}

cudaError_t cudaMemsetAsync(void* begin, int byte, size_t bytes, cudaStream_t stream) {
    if (unsupported("cudaMemsetAsync"))
        return cudaSuccess;
    return on_device([&](Device& device) {
        device.put(device.stream(stream), Fill{begin, byte, bytes});
        return cudaSuccess;
    });
}

cudaError_t cudaMemset(void* begin, int byte, size_t bytes) {
    return cudaMemsetAsync(begin, byte, bytes, nullptr);
}

} // extern "C"
// NOLINTEND(readability-identifier-naming)
