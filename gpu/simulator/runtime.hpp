#pragma once

// Helpers of all functions of the CUDA runtime.

#include "device.hpp"
#include "known_bugs.hpp"

namespace truestep::simulator {

/// The result of cudaGetLastError in this thread.
cudaError_t& last_error();

/// Notes and returns it.
inline cudaError_t say(cudaError_t error) {
    if (error != cudaSuccess)
        last_error() = error;
    return error;
}

/// Calls work(device) with the device locked. After a failure all calls fail.
template <class Work>
cudaError_t on_device(const Work& work) {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    return say(device.failed() != cudaSuccess ? device.failed() : work(device));
}

/// The same for releases, which must work even then.
template <class Work>
cudaError_t give_back(const Work& work) {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    const cudaError_t error = work(device);
    return say(device.failed() != cudaSuccess ? device.failed() : error);
}

/// For calls that are forbidden during a capture: they spoil it.
inline cudaError_t unless_capturing(Device& device) {
    Stream* const stream = device.captured_by_this_thread();
    if (stream == nullptr)
        return cudaSuccess;
    stream->spoiled = true;
    return cudaErrorStreamCaptureUnsupported;
}

/// For calls that are forbidden in a group of NCCL: its calls have not begun, so waiting for them
/// never ends.
inline cudaError_t unless_in_group(Device& device) {
    if (open_groups() > 0 && device.failed() == cudaSuccess)
        device.fail(cudaErrorLaunchFailure, "NCCL: a thread waits for a stream with a group left open");
    return device.failed();
}

} // namespace truestep::simulator
