#pragma once

// A block of threads: algorithms are written over it once, for the device and for the host.
//
// A block is a number of threads, a power of two from 32 to 1024, that share a struct. It works in
// phases: all threads run a phase, and a barrier follows each. On the device a thread is a thread.
// On the host a phase is a loop over the threads, in another order each time. An algorithm that
// lacks a barrier therefore reads what has not been written yet, and gives other bits.
//
// An algorithm is a struct with `Arguments` (all pointers and sizes of a launch), `Shared` (the
// memory of a block, not initialized) and a static function template run(block, shared, arguments).

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/problem/tunable.hpp>

#if defined(__CUDACC__)
#define TRUESTEP_BLOCK __device__ inline
#define TRUESTEP_UNROLL _Pragma("unroll")
#define TRUESTEP_ROLLED _Pragma("unroll 1")
#else
#define TRUESTEP_BLOCK inline
#define TRUESTEP_UNROLL
#define TRUESTEP_ROLLED
#endif

namespace truestep::gpu {

using problem::Index;

constexpr int warp_threads = 32;
constexpr int most_threads = 1024;
constexpr Index word_bits = problem::tunable<Index>("word_bits");
/// Coordinates that a block takes at once.
constexpr Index tile = problem::tunable<Index>("tile");
constexpr Index tile_words = tile / word_bits;

TRUESTEP_BLOCK int bits_set(std::uint64_t word) {
#if defined(__CUDA_ARCH__)
    return __popcll(word);
#else
    return std::popcount(word);
#endif
}

/// The number of the lowest bit; the word is not 0.
TRUESTEP_BLOCK int lowest_bit(std::uint64_t word) {
#if defined(__CUDA_ARCH__)
    return __ffsll(static_cast<long long>(word)) - 1;
#else
    return std::countr_zero(word);
#endif
}

TRUESTEP_BLOCK bool has_bit(std::uint64_t word, Index bit) {
    return ((word >> static_cast<unsigned>(bit)) & 1U) != 0;
}

/// The bits below `bit`, which is less than 64.
TRUESTEP_BLOCK std::uint64_t bits_below(Index bit) {
    return (std::uint64_t{1} << static_cast<unsigned>(bit)) - 1;
}

template <class T>
TRUESTEP_BLOCK T least(T a, T b) {
    return b < a ? b : a;
}
template <class T>
TRUESTEP_BLOCK T greatest(T a, T b) {
    return a < b ? b : a;
}

#if !defined(__CUDACC__)

/// The orders in which the threads of a host's block take their turns. Seed 0 is the ascending
/// order alone, which hides most missing barriers.
class ThreadOrders {
  public:
    /// Throws truestep::Error for a number of threads that a block cannot have.
    ThreadOrders(int threads, std::uint64_t seed);

    [[nodiscard]] int threads() const { return static_cast<int>(orders_.front().size()); }
    /// Another order at every call.
    [[nodiscard]] const std::vector<int>& next() {
        state_ = state_ * 0x5851'f42d'4c95'7f2dU + 0x1405'7b7e'f767'814fU;
        return orders_[static_cast<std::size_t>(state_ >> 33U) % orders_.size()];
    }

  private:
    std::vector<std::vector<int>> orders_;
    std::uint64_t state_;
};

class HostBlock {
  public:
    HostBlock(Index index, ThreadOrders& orders) : index_(index), orders_(orders) {}

    [[nodiscard]] Index index() const { return index_; }
    [[nodiscard]] int threads() const { return orders_.threads(); }
    /// How many of a thread's `share` of values to visit: `left` of them exist, and the others are
    /// 0.
    static int worth_doing(int share, int left) { return least(share, greatest(left, 0)); }

    /// Calls work(thread) for all threads; a barrier follows.
    template <class Work>
    void phase(const Work& work) {
        for (const int thread : orders_.next())
            work(thread);
    }

    /// Builds words of a mask: 32 consecutive threads make one of 64 bits, and bit 32*half +
    /// thread%32 is predicate(thread, half). Calls take(first thread, word) for each word. There is
    /// no barrier: only a phase orders one warp after another.
    template <class Predicate, class Take>
    void ballot(const Predicate& predicate, const Take& take) {
        for (const int first : orders_.next()) {
            if (first % warp_threads != 0)
                continue;
            std::uint64_t word = 0;
            for (int half = 0; half < 2; ++half)
                for (int lane = 0; lane < warp_threads; ++lane)
                    word |= static_cast<std::uint64_t>(predicate(first + lane, half))
                            << static_cast<unsigned>(half * warp_threads + lane);
            take(first, word);
        }
    }

    /// Sums within each warp: take(thread, before, all) gets the sum of value() of the threads
    /// before it in its warp, and of the whole warp, which is below 2^32. value() and take() are
    /// called once for each thread, and a barrier follows.
    template <class Value, class Take>
    void warp_scan(const Value& value, const Take& take) {
        std::array<std::uint32_t, warp_threads> before{};
        for (const int first : orders_.next()) {
            if (first % warp_threads != 0)
                continue;
            std::uint32_t all = 0;
            for (int lane = 0; lane < warp_threads; ++lane) {
                before[static_cast<std::size_t>(lane)] = all;
                all += value(first + lane);
            }
            for (int lane = 0; lane < warp_threads; ++lane)
                take(first + lane, before[static_cast<std::size_t>(lane)], all);
        }
    }

    // Atomic operations on integers, shared or not. Where threads collide, the order does not
    // change the result.
    template <class T>
    T add(T& place, T value) {
        const T before = place;
        place += value;
        return before;
    }
    template <class T>
    void set_bits(T& place, T value) {
        place |= value;
    }
    template <class T>
    void keep_bits(T& place, T value) {
        place &= value;
    }
    void lower(Index& place, Index value) { place = least(place, value); }

    /// A variable of each thread that outlives a phase.
    template <class T>
    class PerThread {
      public:
        explicit PerThread(const HostBlock& block) : values_(static_cast<std::size_t>(block.threads())) {}
        T& operator[](int thread) { return values_[static_cast<std::size_t>(thread)]; }

      private:
        std::vector<T> values_;
    };

    /// Each thread's part of `Size` values: number 0 to Size/threads - 1.
    template <class T, Index Size>
    class PerSweep {
      public:
        explicit PerSweep(const HostBlock& block) : threads_(block.threads()), values_(Size) {}
        T& operator()(int thread, int number) {
            return values_[static_cast<std::size_t>(number) * static_cast<std::size_t>(threads_) +
                           static_cast<std::size_t>(thread)];
        }

      private:
        int threads_;
        std::vector<T> values_;
    };

  private:
    Index index_;
    ThreadOrders& orders_;
};

#else

template <int Threads>
class DeviceBlock {
  public:
    __device__ static Index index() { return static_cast<Index>(blockIdx.x); }
    __device__ static constexpr int threads() { return Threads; }
    /// The whole share: the compiler unrolls loops of known length.
    __device__ static constexpr int worth_doing(int share, int) { return share; }

    template <class Work>
    __device__ void phase(const Work& work) {
        work(static_cast<int>(threadIdx.x));
        __syncthreads();
    }

    template <class Predicate, class Take>
    __device__ void ballot(const Predicate& predicate, const Take& take) {
        const int thread = static_cast<int>(threadIdx.x);
        const std::uint64_t low = __ballot_sync(0xffff'ffffU, predicate(thread, 0));
        const std::uint64_t high = __ballot_sync(0xffff'ffffU, predicate(thread, 1));
        if (thread % warp_threads == 0)
            take(thread, low | high << 32U);
    }

    template <class Value, class Take>
    __device__ void warp_scan(const Value& value, const Take& take) {
        const int thread = static_cast<int>(threadIdx.x);
        const std::uint32_t mine = value(thread);
        std::uint32_t sum = mine;
        TRUESTEP_UNROLL
        for (int reach = 1; reach < warp_threads; reach *= 2) {
            const std::uint32_t other = __shfl_up_sync(0xffff'ffffU, sum, reach);
            sum += thread % warp_threads >= reach ? other : 0U;
        }
        take(thread, sum - mine, __shfl_sync(0xffff'ffffU, sum, warp_threads - 1));
        __syncthreads();
    }

    __device__ static std::uint32_t add(std::uint32_t& place, std::uint32_t value) {
        return atomicAdd(&place, value);
    }
    __device__ static Index add(Index& place, Index value) {
        return static_cast<Index>(atomicAdd(reinterpret_cast<unsigned long long*>(&place),
                                            static_cast<unsigned long long>(value)));
    }
    __device__ static void set_bits(std::uint32_t& place, std::uint32_t value) { atomicOr(&place, value); }
    __device__ static void set_bits(std::uint64_t& place, std::uint64_t value) {
        atomicOr(reinterpret_cast<unsigned long long*>(&place), static_cast<unsigned long long>(value));
    }
    __device__ static void keep_bits(std::uint64_t& place, std::uint64_t value) {
        atomicAnd(reinterpret_cast<unsigned long long*>(&place), static_cast<unsigned long long>(value));
    }
    __device__ static void lower(Index& place, Index value) {
        atomicMin(reinterpret_cast<long long*>(&place), static_cast<long long>(value));
    }

    template <class T>
    class PerThread {
      public:
        __device__ explicit PerThread(const DeviceBlock&) {}
        __device__ T& operator[](int) { return value_; }

      private:
        T value_;
    };

    template <class T, Index Size>
    class PerSweep {
      public:
        __device__ explicit PerSweep(const DeviceBlock&) {}
        /// In registers, if unrolling the loop around it makes `number` a constant.
        __device__ T& operator()(int, int number) { return values_[number]; }

      private:
        T values_[Size / Threads];
    };
};

#endif

/// Calls work(at) for each of the block's tile of `size` coordinates, in one phase.
template <class Block, class Work>
TRUESTEP_BLOCK void over_tile(Block& block, Index size, const Work& work) {
    const Index begin = block.index() * tile;
    const Index end = least(begin + tile, size);
    block.phase([&](int thread) {
        for (Index at = begin + thread; at < end; at += block.threads())
            work(at);
    });
}

} // namespace truestep::gpu
