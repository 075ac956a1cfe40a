#include "cuda_device_stream.hpp"

#include <stdexcept>
#include <utility>

#include <scape/gpu/availability.hpp>
#include <scape/problem/error.hpp>

namespace scape::gpu {

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
    for (const auto& [nodes, graph] : ready)
        static_cast<void>(cudaGraphExecDestroy(graph));
    if (own)
        static_cast<void>(cudaStreamDestroy(stream));
}

cudaStream_t CudaStream::State::to_launch() {
    if (graphs && !capturing) {
        check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a graph");
        capturing = true;
    }
    return stream;
}

cudaStream_t CudaStream::State::at_once() {
    if (!capturing)
        return stream;
    capturing = false;
    cudaGraph_t captured = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &captured), "ending a graph");
    const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> graph(captured, &cudaGraphDestroy);
    std::size_t nodes = 0;
    check_cuda(cudaGraphGetNodes(captured, nullptr, &nodes), "looking at a graph");
    cudaGraphExec_t& known = ready[nodes];
    cudaGraphExecUpdateResultInfo info{};
    if (known != nullptr && cudaGraphExecUpdate(known, captured, &info) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        check_cuda(cudaGraphExecDestroy(std::exchange(known, nullptr)), "letting a graph go");
    }
    if (known == nullptr)
        check_cuda(cudaGraphInstantiate(&known, captured, 0), "making a graph");
    check_cuda(cudaGraphLaunch(known, stream), "launching a graph");
    return stream;
}

CudaStream::CudaStream(const Options& options) : state_(std::make_shared<State>(options)) {}

int CudaStream::device() const {
    return state_->device;
}

void CudaStream::watch(std::function<void()> check) const {
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

void CudaDeviceStream::synchronize() const {
    auto* const stream = state_->at_once();
    if (state_->check) {
        constexpr int between_checks = 256;
        for (int asked = 1; cudaStreamQuery(stream) == cudaErrorNotReady; ++asked)
            if (asked % between_checks == 0)
                state_->check();
        static_cast<void>(cudaGetLastError()); // "not ready" is none
    }
    check_cuda(cudaStreamSynchronize(stream), "waiting for the device");
}

void CudaDeviceStream::copy(void* to, const void* from, std::size_t bytes) const {
    if (bytes > 0)
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->to_launch()), "copying");
}

void CudaDeviceStream::copy_in(void* to, const void* from, std::size_t bytes) const {
    if (bytes > 0)
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->at_once()), "copying");
}

void CudaDeviceStream::fill(void* begin, int byte, std::size_t bytes) const {
    if (bytes > 0)
        check_cuda(cudaMemsetAsync(begin, byte, bytes, state_->to_launch()), "filling memory");
}

} // namespace scape::gpu
