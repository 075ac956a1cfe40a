#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace truestep::gpu {

/// A stream of a device, which a rank's backend and its communicator share. A handle: copies are the same
/// stream. Its thread is the one that makes it.
class CudaStream {
  public:
    struct Options {
        int device = 0;
        void* stream = nullptr; ///< a cudaStream_t to work on, or null for one of its own
        /// Launches are put together in CUDA graphs, from one point where the host waits or ranks meet to
        /// the next. Changes no bit.
        bool graphs = false;
    };

    /// Throws truestep::Error where there is no such device (availability.hpp says why), and
    /// std::runtime_error with CUDA's words when the device fails.
    explicit CudaStream(const Options& options);
    CudaStream() : CudaStream(Options{}) {}

    [[nodiscard]] int device() const;

    /// Is called now and then while the host waits for the stream, with how long it has waited, and may
    /// throw to end that. For communicators, whose peers may never come.
    using Check = std::function<void(std::chrono::steady_clock::duration waited)>;
    void watch(Check check) const;

    struct State;
    [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

  private:
    std::shared_ptr<State> state_;
};

} // namespace truestep::gpu
