#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include <scape/gpu/block.hpp>

namespace scape::gpu {

/// Runs blocks on the host: one after the other, in another order at every launch.
class HostMachine {
  public:
    HostMachine(int threads, std::uint64_t seed) : orders_(threads, seed), state_(seed) {}

    /// What has not been written holds nonsense.
    template <class T>
    class Vector {
      public:
        void resize(Index size) {
            memory_ = size == 0 ? nullptr : std::make_unique<T[]>(static_cast<std::size_t>(size));
            if (size > 0)
                std::memset(memory_.get(), nonsense, static_cast<std::size_t>(size) * sizeof(T));
            size_ = size;
        }
        [[nodiscard]] T* data() const { return memory_.get(); }
        [[nodiscard]] Index size() const { return size_; }
        void swap(Vector& other) {
            memory_.swap(other.memory_);
            std::swap(size_, other.size_);
        }

      private:
        std::unique_ptr<T[]> memory_; // NOLINT(modernize-avoid-c-arrays): to the byte, for the sanitizers
        Index size_ = 0;
    };
    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) {
        std::vector<Index> order(static_cast<std::size_t>(blocks));
        std::iota(order.begin(), order.end(), Index{0});
        for (std::size_t left = order.size(); left > 1; --left) {
            state_ = state_ * 0x5851'f42d'4c95'7f2dU + 0x1405'7b7e'f767'814fU;
            std::swap(order[left - 1], order[static_cast<std::size_t>(state_ >> 33U) % left]);
        }
        const auto shared = std::make_unique<typename Algorithm::Shared>();
        for (const Index index : order) {
            if constexpr (!std::is_empty_v<typename Algorithm::Shared>)
                std::memset(static_cast<void*>(shared.get()), nonsense, sizeof *shared);
            HostBlock block(index, orders_);
            Algorithm::run(block, *shared, arguments);
        }
    }

    template <class V>
    void fill(V& vector, int byte) {
        fill_bytes(vector.data(), byte, static_cast<std::size_t>(vector.size()) * sizeof *vector.data());
    }
    void fill_bytes(void* begin, int byte, std::size_t bytes) {
        if (bytes > 0)
            std::memset(begin, byte, bytes);
    }
    template <class T>
    void upload(T* to, const T* from, Index size) {
        std::copy_n(from, size, to);
    }
    template <class T>
    void download(T* to, const T* from, Index size) {
        std::copy_n(from, size, to);
    }
    const float* gradient(const float* given, Index) { return given; }
    template <class V>
    void exchange(V&) {}
    void hand_over() {}

  private:
    static constexpr int nonsense = 0xa5;

    ThreadOrders orders_;
    std::uint64_t state_;
};

} // namespace scape::gpu
