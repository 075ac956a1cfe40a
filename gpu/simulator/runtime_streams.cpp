// The CUDA runtime's functions for streams, events and graphs.
#include "runtime.hpp"

using namespace truestep::simulator;

namespace {

struct Event {
    int device = current_device();
    std::shared_ptr<Mark> mark = std::make_shared<Mark>();
};
struct Graph {
    Operations operations;
};

Event& event_of(cudaEvent_t handle) {
    return *reinterpret_cast<Event*>(handle);
}
Graph& graph_of(cudaGraph_t handle) {
    return *reinterpret_cast<Graph*>(handle);
}
Graph& graph_of(cudaGraphExec_t handle) {
    return *reinterpret_cast<Graph*>(handle);
}

/// A node keeps its nature: a kernel its code, a fill its width, a copy the kinds of its memory.
bool may_become(const Device& device, const Operation& known, const Operation& now) {
    if (known.index() != now.index())
        return false;
    if (const Launch* const launch = std::get_if<Launch>(&now))
        return std::get<Launch>(known).kernel == launch->kernel;
    if (const Fill* const fill = std::get_if<Fill>(&now))
        return std::get<Fill>(known).bytes == fill->bytes;
    const auto& one = std::get<Copy>(known);
    const auto& two = std::get<Copy>(now);
    return device.addresses.on_device(one.to) == device.addresses.on_device(two.to) &&
           device.addresses.on_device(one.from) == device.addresses.on_device(two.from);
}

/// For calls that would have to wait, which a capturing stream cannot.
cudaError_t unless_captured(Stream& stream) {
    if (!stream.capturing)
        return cudaSuccess;
    stream.spoiled = true;
    return cudaErrorStreamCaptureUnsupported;
}

} // namespace

// NOLINTBEGIN(readability-identifier-naming): names are CUDA's
extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
    return on_device([&](Device& device) {
        *stream = reinterpret_cast<cudaStream_t>(device.make_stream());
        return cudaSuccess;
    });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return cudaStreamCreateWithFlags(stream, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return give_back([&](Device& device) {
        device.remove_stream(&device.stream(stream));
        return cudaSuccess;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    if (unsupported("cudaStreamSynchronize"))
        return cudaSuccess;
    return on_device([&](Device& device) {
        Stream& stream = device.stream(handle);
        if (const cudaError_t error = unless_captured(stream); error != cudaSuccess)
            return error;
        if (const cudaError_t error = unless_in_group(device); error != cudaSuccess)
            return error;
        device.drain(stream);
        return device.failed();
    });
}

cudaError_t cudaDeviceSynchronize() {
    return on_device([&](Device& device) {
        if (const cudaError_t error = unless_capturing(device); error != cudaSuccess)
            return error;
        if (const cudaError_t error = unless_in_group(device); error != cudaSuccess)
            return error;
        device.drain_all();
        return device.failed();
    });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    return on_device([&](Device& device) {
        Stream& stream = device.stream(handle);
        if (const cudaError_t error = unless_captured(stream); error != cudaSuccess)
            return error;
        if (const cudaError_t error = unless_in_group(device); error != cudaSuccess)
            return error;
        if (stream.queue.empty())
            return cudaSuccess;
        if (!device.do_one(&stream))
            static_cast<void>(device.wait_for_others(stream));
        return device.failed() != cudaSuccess ? device.failed() : cudaErrorNotReady;
    });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
    return on_device([&](Device&) {
        *event = reinterpret_cast<cudaEvent_t>(new Event);
        return cudaSuccess;
    });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return give_back([&](Device&) {
        delete &event_of(event);
        return cudaSuccess;
    });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
    if (unsupported("cudaEventRecord"))
        return cudaSuccess;
    return on_device([&](Device& device) {
        Stream& stream = device.stream(handle);
        if (stream.capturing)
            return cudaErrorNotSupported;
        if (event_of(event).device != stream.device)
            return cudaErrorInvalidResourceHandle;
        const auto& mark = event_of(event).mark;
        device.put(stream, Record{mark, ++mark->asked});
        return cudaSuccess;
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return on_device([&](Device& device) {
        if (const cudaError_t error = unless_capturing(device); error != cudaSuccess)
            return error;
        const auto& mark = event_of(event).mark;
        if (mark->reached >= mark->asked)
            return device.failed();
        static_cast<void>(
            device.do_one(&device.stream(nullptr))); // so that repeated queries come to an end
        return device.failed() != cudaSuccess ? device.failed() : cudaErrorNotReady;
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned /*flags*/) {
    if (unsupported("cudaStreamWaitEvent"))
        return cudaSuccess;
    return on_device([&](Device& device) {
        Stream& stream = device.stream(handle);
        if (stream.capturing)
            return cudaErrorStreamCaptureIsolation;
        const auto& mark = event_of(event).mark;
        device.put(stream, Wait{mark, mark->asked});
        return cudaSuccess;
    });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode /*mode*/) {
    return on_device([&](Device& device) {
        Stream& stream = device.stream(handle);
        if (stream.capturing || handle == nullptr)
            return cudaErrorIllegalState;
        stream.capturing = true;
        stream.spoiled = false;
        stream.captured.clear();
        stream.capturer = std::this_thread::get_id();
        return cudaSuccess;
    });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
    return give_back([&](Device& device) {
        Stream& stream = device.stream(handle);
        *graph = nullptr;
        if (!stream.capturing)
            return cudaErrorIllegalState;
        if (stream.capturer != std::this_thread::get_id())
            return cudaErrorStreamCaptureWrongThread;
        stream.capturing = false;
        if (stream.spoiled)
            return cudaErrorStreamCaptureInvalidated;
        *graph = reinterpret_cast<cudaGraph_t>(new Graph{std::move(stream.captured)});
        stream.captured.clear();
        return cudaSuccess;
    });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete &graph_of(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long /*flags*/) {
    return on_device([&](Device&) {
        *made = reinterpret_cast<cudaGraphExec_t>(new Graph(graph_of(graph)));
        return cudaSuccess;
    });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t known, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
    if (unsupported("cudaGraphExecUpdate"))
        return cudaSuccess;
    return on_device([&](Device& device) {
        Operations& old = graph_of(known).operations;
        const Operations& now = graph_of(graph).operations;
        bool same = old.size() == now.size();
        for (std::size_t i = 0; same && i < now.size(); ++i)
            same = may_become(device, old[i], now[i]);
        info->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
        if (!same)
            return cudaErrorGraphExecUpdateFailure;
        old = now;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    return on_device([&](Device& device) {
        for (const Operation& operation : graph_of(graph).operations)
            device.put(device.stream(stream), operation);
        return cudaSuccess;
    });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete &graph_of(graph);
    return cudaSuccess;
}

} // extern "C"
// NOLINTEND(readability-identifier-naming)
