#pragma once

#include <truestep/gpu/block.hpp>

// An algorithm without its barriers: a known bug of device code, for the gate's own test.

namespace truestep::gpu::planted {

#if !defined(__CUDACC__)

/// A block whose threads never wait for each other. It runs them one after the other, an order that
/// a device is free to take.
class UnbarredHostBlock {
  public:
    UnbarredHostBlock(Index index, int thread, int threads)
        : index_(index), thread_(thread), threads_(threads) {}

    [[nodiscard]] Index index() const { return index_; }
    [[nodiscard]] int threads() const { return threads_; }
    template <class Work>
    void phase(const Work& work) {
        work(thread_);
    }

  private:
    Index index_;
    int thread_;
    int threads_;
};

/// Runs the algorithm without its barriers.
template <class Algorithm>
struct WithoutBarriers {
    using Arguments = typename Algorithm::Arguments;
    using Shared = typename Algorithm::Shared;

    static void run(HostBlock& block, Shared& shared, const Arguments& arguments) {
        block.phase([&](int thread) {
            UnbarredHostBlock alone(block.index(), thread, block.threads());
            Algorithm::run(alone, shared, arguments);
        });
    }
};

#else

template <int Threads>
class UnbarredDeviceBlock : public DeviceBlock<Threads> {
  public:
    template <class Work>
    __device__ void phase(const Work& work) {
        work(static_cast<int>(threadIdx.x));
    }
};

template <class Algorithm>
struct WithoutBarriers {
    using Arguments = typename Algorithm::Arguments;
    using Shared = typename Algorithm::Shared;

    template <int Threads>
    __device__ static void run(DeviceBlock<Threads>&, Shared& shared, const Arguments& arguments) {
        UnbarredDeviceBlock<Threads> hasty;
        Algorithm::run(hasty, shared, arguments);
    }
};

#endif

} // namespace truestep::gpu::planted
