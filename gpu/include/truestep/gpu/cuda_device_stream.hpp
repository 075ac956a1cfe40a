#pragma once

// What a CudaStream offers to code that may include CUDA headers.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <truestep/gpu/block.hpp>
#include <truestep/gpu/cuda_stream.hpp>

namespace truestep::gpu {

/// Throws std::runtime_error with what was being done and CUDA's text.
void check_cuda(cudaError_t status, const char* what);

/// Launches blocks of `device_threads`; each kernels/*.cu holds some of them.
template <class Algorithm>
void launch(Index blocks, const typename Algorithm::Arguments& arguments, cudaStream_t stream);

struct CudaStream::State {
    explicit State(const Options& options);
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State();

    /// The stream, with a capture begun where launches are put into graphs. `what` names what will
    /// be launched.
    cudaStream_t to_launch(std::uintptr_t what);
    /// The stream for work that cannot be part of a graph: what has been captured is launched
    /// before it.
    cudaStream_t at_once();

    int device = 0;
    cudaStream_t stream = nullptr;
    bool own = false;
    bool graphs = false;
    bool capturing = false;
    std::vector<std::uintptr_t> captured;
    /// Graphs by the nodes in them, so that a capture changes only the arguments of an existing
    /// graph.
    std::map<std::vector<std::uintptr_t>, cudaGraphExec_t> ready;
    Check check;
    std::vector<std::shared_ptr<void>> outgrown; ///< memory that lives as long as the stream
};

/// A place in a stream.
class CudaEvent {
  public:
    CudaEvent();
    CudaEvent(const CudaEvent&) = delete;
    CudaEvent& operator=(const CudaEvent&) = delete;
    ~CudaEvent();
    [[nodiscard]] cudaEvent_t get() const { return event_; }

  private:
    cudaEvent_t event_ = nullptr;
};

class CudaDeviceStream {
  public:
    using Event = std::shared_ptr<CudaEvent>;

    explicit CudaDeviceStream(const CudaStream& stream) : state_(stream.state()) {}

    [[nodiscard]] CudaDeviceStream beside() const {
        return CudaDeviceStream(CudaStream({state_->device, nullptr, false}));
    }
    [[nodiscard]] Event record() const;
    void wait(const Event& event) const;
    /// Whether all work before the recorded event has been done.
    [[nodiscard]] bool reached(const Event& event) const;
    /// Waits until all work is done; throws what the stream's check throws.
    void synchronize() const;

    /// Never part of a graph: the source may go when this returns, or another stream may read the
    /// copy.
    void copy(void* to, const void* from, std::size_t bytes) const;
    /// Copies into pinned memory, to be read after synchronize().
    void copy_out(void* to, const void* from, std::size_t bytes) const;
    void fill(void* begin, int byte, std::size_t bytes) const;
    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) const {
        launch<Algorithm>(blocks, arguments,
                          state_->to_launch(reinterpret_cast<std::uintptr_t>(&launch<Algorithm>)));
    }

    [[nodiscard]] CudaStream::State& state() const { return *state_; }

  private:
    std::shared_ptr<CudaStream::State> state_;
};

} // namespace truestep::gpu
