#pragma once

// What the functions of the CUDA runtime have in common.

#include "device.hpp"
#include "mistakes.hpp"

namespace truestep::simulator {

/// What cudaGetLastError says of this thread.
cudaError_t& last_error();

/// Notes and returns it.
inline cudaError_t say(cudaError_t error) {
    if (error != cudaSuccess)
        last_error() = error;
    return error;
}

/// Calls work(device) with the device locked, unless it has failed already: then all calls do.
template <class Work>
cudaError_t on_device(const Work& work) {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    return say(device.failed() != cudaSuccess ? device.failed() : work(device));
}

/// The same, for what has to be given back even then.
template <class Work>
cudaError_t give_back(const Work& work) {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    const cudaError_t error = work(device);
    return say(device.failed() != cudaSuccess ? device.failed() : error);
}

/// What no thread may do while it captures: the capture is spoiled.
inline cudaError_t unless_capturing(Device& device) {
    Stream* const stream = device.captured_by_this_thread();
    if (stream == nullptr)
        return cudaSuccess;
    stream->spoiled = true;
    return cudaErrorStreamCaptureUnsupported;
}

/// What a thread may not do in a group of NCCL's: what is in it has not begun, and a wait for it is for
/// ever.
inline cudaError_t unless_in_group(Device& device) {
    if (open_groups() > 0 && device.failed() == cudaSuccess)
        device.fail(cudaErrorLaunchFailure, "NCCL: a thread waits for a stream with a group left open");
    return device.failed();
}

} // namespace truestep::simulator
