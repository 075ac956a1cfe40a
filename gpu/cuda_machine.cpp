// Allocates the memory of a CUDA backend, and uploads gradients that lie in the host's memory.
#include <truestep/gpu/cuda_machine.hpp>

namespace truestep::gpu {

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
    // The caller has waited for the stream that uses the memory. Waiting for the whole device would
    // spoil a graph that another rank is capturing.
    static_cast<void>(pinned_ ? cudaFreeHost(memory_) : cudaFree(memory_));
    memory_ = nullptr;
    bytes_ = 0;
}

CudaMachine::CudaMachine(const CudaStream& stream, Exchange exchange)
    : stream_(stream), exchange_(exchange) {
    results_.reserve(small);
}

bool CudaMachine::is_on_device(const float* given) {
    cudaPointerAttributes attributes{};
    check_cuda(cudaPointerGetAttributes(&attributes, given), "looking at the gradient");
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

const float* CudaMachine::gradient(const float* given, Index size) {
    if (is_on_device(given))
        return given;
    resize(gradient_, size);
    upload(gradient_.data(), given, size);
    return gradient_.data();
}

const float* CudaMachine::gradient_in(const float* given, Index size,
                                      std::span<const problem::Range> where) {
    if (is_on_device(given))
        return given;
    resize(gradient_, size);
    for (const problem::Range& range : where)
        upload(gradient_.data() + range.begin, given + range.begin, range.size());
    return gradient_.data();
}

} // namespace truestep::gpu
