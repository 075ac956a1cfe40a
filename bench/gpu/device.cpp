#include "gpu/device.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <cuda_runtime_api.h>

#include <truestep/gpu/cuda_device_stream.hpp>
#include <truestep/report/environment.hpp>

namespace truestep::gpu::bench {

/// Defined in kernels/bench.cu.
void launch_hold(long long cycles, cudaStream_t stream);

namespace {

/// Throws std::runtime_error with what was being done and CUDA's text.
void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

cudaStream_t stream_of(const Stream& stream) {
    return static_cast<cudaStream_t>(stream.handle());
}

int attribute(cudaDeviceAttr which, int device) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, device), "asking for an attribute");
    return value;
}

std::string cuda_version(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// The driver's own version text, where the system shows it.
std::string driver_text() {
    std::ifstream file("/proc/driver/nvidia/version");
    std::string line;
    return std::getline(file, line) ? line : "unknown";
}

/// CUDA returns 0 for an unknown value.
std::string one_decimal(double value, const char* unit) {
    if (value == 0.0)
        return "unknown";
    char text[64];
    std::snprintf(text, sizeof text, "%.1f %s", value, unit);
    return text;
}

} // namespace

template <class Algorithm>
void run_blocks(Index blocks, const typename Algorithm::Arguments& arguments, void* stream) {
    launch<Algorithm>(blocks, arguments, static_cast<cudaStream_t>(stream));
}
template void run_blocks<Fill>(Index, const Fill::Arguments&, void*);
template void run_blocks<Read>(Index, const Read::Arguments&, void*);
template void run_blocks<AdamS>(Index, const AdamS::Arguments&, void*);
template void run_blocks<AdamW>(Index, const AdamW::Arguments&, void*);

Stream::Stream(int device) {
    check(cudaSetDevice(device), "choosing the device");
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "making a stream");
    stream_ = made;
}
Stream::~Stream() {
    static_cast<void>(cudaStreamDestroy(stream_of(*this)));
}
void Stream::wait() const {
    check(cudaStreamSynchronize(stream_of(*this)), "waiting for the device");
}
void Stream::copy(void* to, const void* from, std::size_t bytes) const {
    if (bytes > 0)
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(*this)), "copying");
}
void Stream::clear(float* values, Index size) const {
    check(cudaMemsetAsync(values, 0, static_cast<std::size_t>(size) * sizeof(float), stream_of(*this)),
          "filling memory");
}

Floats::Floats(Index size) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, static_cast<std::size_t>(size) * sizeof(float)), "allocating memory");
    values_ = static_cast<float*>(memory);
}
Floats::~Floats() {
    static_cast<void>(cudaFree(values_));
}

struct Timer::Clock {
    long long hold_cycles = 0;
    std::vector<cudaEvent_t> events;
    std::size_t used = 0;
};

Timer::Timer(const Stream& stream, int device) : stream_(stream), clock_(std::make_unique<Clock>()) {
    constexpr double hold_seconds = 400e-6; // some thirty launches
    clock_->hold_cycles =
        static_cast<long long>(attribute(cudaDevAttrClockRate, device) * 1e3 * hold_seconds);
}
Timer::~Timer() {
    for (cudaEvent_t event : clock_->events)
        static_cast<void>(cudaEventDestroy(event));
}

void Timer::begin(std::vector<double>& into) {
    launch_hold(clock_->hold_cycles, stream_of(stream_));
    samples_.push_back({&into, clock_->used, clock_->used});
    record();
}

void Timer::record() {
    std::vector<cudaEvent_t>& events = clock_->events;
    if (clock_->used == events.size()) {
        events.emplace_back();
        check(cudaEventCreate(&events.back()), "making an event");
    }
    check(cudaEventRecord(events[clock_->used++], stream_of(stream_)), "recording an event");
    samples_.back().last = clock_->used;
}

void Timer::collect() {
    stream_.wait();
    for (const Sample& sample : samples_) {
        double seconds = 0.0;
        for (std::size_t event = sample.first; event + 1 < sample.last; event += 2) {
            float milliseconds = 0.0F;
            check(cudaEventElapsedTime(&milliseconds, clock_->events[event], clock_->events[event + 1]),
                  "reading the time");
            seconds += 1e-3 * static_cast<double>(milliseconds);
        }
        sample.into->push_back(seconds);
    }
    samples_.clear();
    clock_->used = 0;
}

std::size_t free_memory() {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
}

std::size_t cache_bytes(int device) {
    return static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize, device));
}

std::vector<std::pair<std::string, std::string>> environment_of(int device) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "asking for the device's properties");
    int driver = 0;
    int runtime = 0;
    check(cudaDriverGetVersion(&driver), "asking for the driver's version");
    check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
    const double memory_hz = attribute(cudaDevAttrMemoryClockRate, device) * 1e3;
    const int bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
    constexpr double gib = 1024.0 * 1024.0 * 1024.0;
    std::vector<std::pair<std::string, std::string>> result{
        {"device", properties.name},
        {"compute capability", std::to_string(properties.major) + "." + std::to_string(properties.minor)},
        {"multiprocessors", std::to_string(properties.multiProcessorCount)},
        {"memory", one_decimal(static_cast<double>(properties.totalGlobalMem) / gib, "GiB")},
        {"L2 cache", one_decimal(static_cast<double>(properties.l2CacheSize) / (1 << 20), "MiB")},
        {"greatest clock", one_decimal(attribute(cudaDevAttrClockRate, device) * 1e-3, "MHz")},
        {"memory clock", one_decimal(memory_hz * 1e-6, "MHz")},
        {"memory bus", std::to_string(bus_bits) + " bits"},
        {"theoretical bandwidth", one_decimal(2.0 * memory_hz * bus_bits / 8.0 * 1e-9, "GB/s")},
        {"ECC", properties.ECCEnabled != 0 ? "on" : "off"},
        {"driver", driver_text()},
        {"CUDA of the driver", cuda_version(driver)},
        {"CUDA runtime", cuda_version(runtime)},
    };
    for (const auto& [key, value] : report::environment())
        if (key == "truestep" || key == "compiler" || key == "build")
            result.emplace_back(key, value);
    return result;
}

} // namespace truestep::gpu::bench
