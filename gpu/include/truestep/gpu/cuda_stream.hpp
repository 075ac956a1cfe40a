#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace truestep::gpu {

/// A stream of a device, which a rank's backend and its communicator share. It is a handle: copies
/// are the same stream. It belongs to the thread that makes it.
class CudaStream {
  public:
    struct Options {
        int device = 0;
        void* stream = nullptr; ///< a cudaStream_t to work on, or null for a new one
        /// Puts launches together in CUDA graphs, between two points where the host waits or ranks
        /// meet. Changes no bit.
        bool graphs = false;
    };

    /// Throws truestep::Error where there is no such device (availability.hpp says why), and
    /// std::runtime_error with CUDA's words when the device fails.
    explicit CudaStream(const Options& options);
    CudaStream() : CudaStream(Options{}) {}

    [[nodiscard]] int device() const;

    /// Called from time to time while the host waits for the stream, with how long it has waited.
    /// It may throw to end the wait. Communicators use it, since a peer may never come.
    using Check = std::function<void(std::chrono::steady_clock::duration waited)>;
    void watch(Check check) const;

    struct State;
    [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

  private:
    std::shared_ptr<State> state_;
};

} // namespace truestep::gpu
