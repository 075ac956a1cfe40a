#include "cuda_machine.hpp"

#include <stdexcept>

#include <scape/gpu/availability.hpp>
#include <scape/problem/error.hpp>

namespace scape::gpu {

void check_cuda(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

void DeviceMemory::reserve(std::size_t bytes) {
    if (bytes <= bytes_)
        return;
    release();
    check_cuda(pinned_ ? cudaHostAlloc(&memory_, bytes, cudaHostAllocPortable | cudaHostAllocMapped)
                       : cudaMalloc(&memory_, bytes),
               "allocating memory");
    bytes_ = bytes;
}

void DeviceMemory::release() noexcept {
    if (memory_ == nullptr)
        return;
    if (pinned_) {
        static_cast<void>(cudaDeviceSynchronize()); // freeing it does not wait for kernels
        static_cast<void>(cudaFreeHost(memory_));
    } else {
        static_cast<void>(cudaFree(memory_));
    }
    memory_ = nullptr;
    bytes_ = 0;
}

CudaMachine::CudaMachine(const CudaOptions& options) : exchange_(options.exchange) {
    const Availability here = availability();
    if (here.devices == 0)
        throw Error("cuda backend: " + here.text);
    if (options.device < 0 || options.device >= here.devices)
        throw Error("cuda backend: device " + std::to_string(options.device) + "; there are " +
                    std::to_string(here.devices));
    check_cuda(cudaSetDevice(options.device), "choosing the device");
    if (options.stream != nullptr) {
        stream_ = static_cast<cudaStream_t>(options.stream);
    } else {
        check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
        own_stream_ = true;
    }
    results_.reserve(small);
}

CudaMachine::CudaMachine(CudaMachine&& other) noexcept
    : exchange_(other.exchange_), stream_(std::exchange(other.stream_, nullptr)),
      own_stream_(std::exchange(other.own_stream_, false)) {
    gradient_.swap(other.gradient_);
    results_.swap(other.results_);
}

CudaMachine::~CudaMachine() {
    if (!own_stream_)
        return;
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaMachine::fill_bytes(void* begin, int byte, std::size_t bytes) {
    if (bytes > 0)
        check_cuda(cudaMemsetAsync(begin, byte, bytes, stream_), "filling memory");
}

const float* CudaMachine::gradient(const float* given, Index size) {
    cudaPointerAttributes attributes{};
    check_cuda(cudaPointerGetAttributes(&attributes, given), "looking at the gradient");
    if (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged)
        return given;
    gradient_.resize(size);
    upload(gradient_.data(), given, size);
    return gradient_.data();
}

void CudaMachine::copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0)
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying");
}

void CudaMachine::synchronize() {
    check_cuda(cudaStreamSynchronize(stream_), "waiting for the device");
}

} // namespace scape::gpu
