// Runs a rank's CUDA stream: launches, copies, fills, events, and graphs captured from them.
#include <truestep/gpu/cuda_device_stream.hpp>

#include <stdexcept>
#include <utility>

#include <truestep/gpu/availability.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gpu {

void check_cuda(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

CudaStream::State::State(const Options& options) : device(options.device), graphs(options.graphs) {
    const Availability here = availability();
    if (here.devices == 0)
        throw Error("cuda: " + here.text);
    if (options.device < 0 || options.device >= here.devices)
        throw Error("cuda: device " + std::to_string(options.device) + "; there are " +
                    std::to_string(here.devices));
    check_cuda(cudaSetDevice(device), "choosing the device");
    if (options.stream != nullptr) {
        stream = static_cast<cudaStream_t>(options.stream);
    } else {
        check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
        own = true;
    }
}

CudaStream::State::~State() {
    if (capturing) {
        cudaGraph_t graph = nullptr;
        static_cast<void>(cudaStreamEndCapture(stream, &graph));
        static_cast<void>(cudaGraphDestroy(graph));
    }
    static_cast<void>(cudaStreamSynchronize(stream));
    for (const auto& [what, graph] : ready)
        static_cast<void>(cudaGraphExecDestroy(graph));
    if (own)
        static_cast<void>(cudaStreamDestroy(stream));
}

cudaStream_t CudaStream::State::to_launch(std::uintptr_t what) {
    if (!graphs)
        return stream;
    if (!capturing) {
        check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a graph");
        capturing = true;
    }
    captured.push_back(what);
    return stream;
}

cudaStream_t CudaStream::State::at_once() {
    if (!capturing)
        return stream;
    capturing = false;
    cudaGraphExec_t& known = ready[std::exchange(captured, {})];
    cudaGraph_t made = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &made), "ending a graph");
    const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> graph(made, &cudaGraphDestroy);
    cudaGraphExecUpdateResultInfo info{};
    if (known != nullptr && cudaGraphExecUpdate(known, made, &info) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        check_cuda(cudaGraphExecDestroy(std::exchange(known, nullptr)), "letting a graph go");
    }
    if (known == nullptr)
        check_cuda(cudaGraphInstantiate(&known, made, 0), "making a graph");
    check_cuda(cudaGraphLaunch(known, stream), "launching a graph");
    return stream;
}

CudaStream::CudaStream(const Options& options) : state_(std::make_shared<State>(options)) {}

int CudaStream::device() const {
    return state_->device;
}

void CudaStream::watch(Check check) const {
    state_->check = std::move(check);
}

CudaEvent::CudaEvent() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
}

CudaEvent::~CudaEvent() {
    static_cast<void>(cudaEventDestroy(event_));
}

CudaDeviceStream::Event CudaDeviceStream::record() const {
    auto event = std::make_shared<CudaEvent>();
    check_cuda(cudaEventRecord(event->get(), state_->at_once()), "recording an event");
    return event;
}

void CudaDeviceStream::wait(const Event& event) const {
    check_cuda(cudaStreamWaitEvent(state_->at_once(), event->get(), 0), "ordering streams");
}

bool CudaDeviceStream::reached(const Event& event) const {
    const cudaError_t state = cudaEventQuery(event->get());
    if (state == cudaErrorNotReady) {
        static_cast<void>(cudaGetLastError()); // not an error
        return false;
    }
    check_cuda(state, "looking at an event");
    return true;
}

void CudaDeviceStream::synchronize() const {
    auto* const stream = state_->at_once();
    if (state_->check) {
        constexpr int between_checks = 256;
        const auto begin = std::chrono::steady_clock::now();
        for (int asked = 1; cudaStreamQuery(stream) == cudaErrorNotReady; ++asked) {
            static_cast<void>(cudaGetLastError()); // "not ready" is not an error
            if (asked % between_checks == 0)
                state_->check(std::chrono::steady_clock::now() - begin);
        }
    }
    check_cuda(cudaStreamSynchronize(stream), "waiting for the device");
}

// Kinds of graph nodes that are not kernels; fills of other widths are other nodes.
constexpr std::uintptr_t copy_node = 1;
constexpr std::uintptr_t fill_node = 2;

void CudaDeviceStream::copy(void* to, const void* from, std::size_t bytes) const {
    if (bytes > 0)
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->at_once()), "copying");
}

void CudaDeviceStream::copy_out(void* to, const void* from, std::size_t bytes) const {
    if (bytes > 0)
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->to_launch(copy_node)),
                   "copying");
}

void CudaDeviceStream::fill(void* begin, int byte, std::size_t bytes) const {
    if (bytes > 0)
        check_cuda(cudaMemsetAsync(begin, byte, bytes, state_->to_launch(fill_node + 2 * bytes)),
                   "filling memory");
}

} // namespace truestep::gpu
