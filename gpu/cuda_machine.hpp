#pragma once

// The device that a backend computes on. Kernels are in kernels/; this knows launches by name only, so that
// the host's compiler builds all but them.

#include <cstring>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include <scape/gpu/block.hpp>
#include <scape/gpu/cuda_backend.hpp>

namespace scape::gpu {

/// Throws std::runtime_error with what was being done and CUDA's own words.
void check_cuda(cudaError_t status, const char* what);

/// Launches blocks of `device_threads`; each kernels/*.cu holds some of them.
template <class Algorithm>
void launch(Index blocks, const typename Algorithm::Arguments& arguments, cudaStream_t stream);

/// Device memory, or pinned memory of the host that the device sees.
class DeviceMemory {
  public:
    explicit DeviceMemory(bool pinned = false) : pinned_(pinned) {}
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
    DeviceMemory& operator=(DeviceMemory&& other) noexcept {
        swap(other);
        return *this;
    }
    ~DeviceMemory() { release(); }

    /// Room for `bytes`; keeps what it has if that is enough.
    void reserve(std::size_t bytes);
    void swap(DeviceMemory& other) {
        std::swap(memory_, other.memory_);
        std::swap(bytes_, other.bytes_);
        std::swap(pinned_, other.pinned_);
    }
    [[nodiscard]] void* data() const { return memory_; }
    void pin() { pinned_ = true; }

  private:
    void release() noexcept;

    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
    bool pinned_ = false;
};

class CudaMachine {
  public:
    explicit CudaMachine(const CudaOptions& options);
    CudaMachine(const CudaMachine&) = delete;
    CudaMachine& operator=(const CudaMachine&) = delete;
    CudaMachine(CudaMachine&& other) noexcept;
    CudaMachine& operator=(CudaMachine&&) = delete;
    ~CudaMachine();

    template <class T>
    class Vector {
      public:
        void resize(Index size) {
            memory_.reserve(static_cast<std::size_t>(size) * sizeof(T));
            size_ = size;
        }
        [[nodiscard]] T* data() const { return static_cast<T*>(memory_.data()); }
        [[nodiscard]] Index size() const { return size_; }
        void swap(Vector& other) {
            memory_.swap(other.memory_);
            std::swap(size_, other.size_);
        }
        void pin() { memory_.pin(); }

      private:
        DeviceMemory memory_;
        Index size_ = 0;
    };

    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) {
        if (blocks > 0)
            launch<Algorithm>(blocks, arguments, stream_);
    }

    template <class V>
    void exchange(V& vector) {
        if (exchange_ == Exchange::host)
            vector.pin();
    }

    template <class V>
    void fill(V& vector, int byte) {
        fill_bytes(vector.data(), byte, static_cast<std::size_t>(vector.size()) * sizeof *vector.data());
    }
    void fill_bytes(void* begin, int byte, std::size_t bytes);
    template <class T>
    void upload(T* to, const T* from, Index size) {
        copy(to, from, static_cast<std::size_t>(size) * sizeof(T));
    }
    /// Waits for it, and for all that was launched before.
    template <class T>
    void download(T* to, const T* from, Index size) {
        const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
        if (bytes > small) {
            copy(to, from, bytes);
            synchronize();
            return;
        }
        copy(results_.data(), from, bytes);
        synchronize();
        std::memcpy(to, results_.data(), bytes);
    }
    /// A gradient in the host's memory is copied.
    const float* gradient(const float* given, Index size);
    void hand_over() {
        if (exchange_ == Exchange::host)
            synchronize();
    }

  private:
    static constexpr std::size_t small = 256; ///< goes through pinned memory

    void copy(void* to, const void* from, std::size_t bytes);
    void synchronize();

    Exchange exchange_;
    cudaStream_t stream_ = nullptr;
    bool own_stream_ = false;
    Vector<float> gradient_;
    DeviceMemory results_{true};
};

} // namespace scape::gpu
