#pragma once

// The device that a backend computes on. Kernels are in kernels/. This file names launches only, so
// the host's compiler builds everything except them.

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include <truestep/gpu/exchange.hpp>

#include <truestep/gpu/cuda_device_stream.hpp>

namespace truestep::gpu {

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

    [[nodiscard]] bool has(std::size_t bytes) const { return bytes <= bytes_; }
    /// Makes room for `bytes`; keeps the present memory if it is large enough.
    void reserve(std::size_t bytes);
    /// Makes room for at least `bytes`, and twice as much as before; returns the old memory.
    [[nodiscard]] DeviceMemory grow(std::size_t bytes) {
        DeviceMemory other(pinned_);
        other.reserve(std::max(bytes, 2 * bytes_));
        swap(other);
        return other;
    }
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
    CudaMachine(const CudaStream& stream, Exchange exchange);

    template <class T>
    class Vector {
      public:
        [[nodiscard]] T* data() const { return static_cast<T*>(memory_.data()); }
        [[nodiscard]] Index size() const { return size_; }
        void swap(Vector& other) {
            memory_.swap(other.memory_);
            std::swap(size_, other.size_);
        }

      private:
        friend CudaMachine;
        DeviceMemory memory_;
        Index size_ = 0;
    };

    /// Loses the contents.
    template <class T>
    void resize(Vector<T>& vector, Index size) {
        const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
        // Captured or running work may use the old memory, so it stays: freeing it now would wait
        // for all work of the device, even for what waits for another rank. It is no larger than
        // the new memory.
        if (!vector.memory_.has(bytes)) {
            static_cast<void>(stream_.state().at_once()); // no allocation during a capture
            DeviceMemory had = vector.memory_.grow(bytes);
            if (had.data() != nullptr)
                stream_.state().outgrown.push_back(std::make_shared<DeviceMemory>(std::move(had)));
        }
        vector.size_ = size;
    }

    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) {
        if (blocks > 0)
            stream_.run<Algorithm>(blocks, arguments);
    }

    template <class V>
    void exchange(V& vector) {
        if (exchange_ == Exchange::host)
            vector.memory_.pin();
    }

    template <class V>
    void fill(V& vector, int byte) {
        fill_bytes(vector.data(), byte, static_cast<std::size_t>(vector.size()) * sizeof *vector.data());
    }
    void fill_bytes(void* begin, int byte, std::size_t bytes) { stream_.fill(begin, byte, bytes); }
    template <class T>
    void upload(T* to, const T* from, Index size) {
        stream_.copy(to, from, static_cast<std::size_t>(size) * sizeof(T));
    }
    /// The data is there when finish() has returned.
    template <class T>
    void fetch(T* to, const T* from, Index size) {
        stream_.copy(to, from, static_cast<std::size_t>(size) * sizeof(T));
    }
    /// Waits for the copy, and for all launches before it.
    template <class T>
    void download(T* to, const T* from, Index size) {
        const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
        if (bytes > small) {
            finish(); // the copy would wait by itself, but without calling the stream's check
            fetch(to, from, size);
            finish();
            return;
        }
        stream_.copy_out(results_.data(), from, bytes);
        finish();
        std::memcpy(to, results_.data(), bytes);
    }
    /// The gradient in the device's memory; one in the host's memory is copied.
    const float* gradient(const float* given, Index size);
    /// The same for these ranges of the gradient, which keep their places in the whole.
    const float* gradient_in(const float* given, Index size, std::span<const problem::Range> where);
    void hand_over() {
        if (exchange_ == Exchange::host)
            finish();
    }
    void finish() { stream_.synchronize(); }

  private:
    static bool is_on_device(const float* given);

    static constexpr std::size_t small = 256; ///< goes through pinned memory

    CudaDeviceStream stream_;
    Exchange exchange_;
    Vector<float> gradient_;
    DeviceMemory results_{true};
};

} // namespace truestep::gpu
