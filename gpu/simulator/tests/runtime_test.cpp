// The functions of the CUDA runtime, with kernels that nvcc compiled.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "device.hpp"
#include "small.hpp"

namespace truestep::simulator {
namespace {

using testing::HasSubstr;

class Runtime : public testing::Test {
  protected:
    void SetUp() override {
        set_schedule(7);
        ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
        ASSERT_EQ(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), cudaSuccess);
        ASSERT_EQ(cudaMalloc(&memory_, sizeof(int) * count), cudaSuccess);
        ASSERT_EQ(cudaMallocHost(&pinned_, sizeof(int) * count), cudaSuccess);
        std::iota(values(), values() + count, 0);
    }
    void TearDown() override {
        static_cast<void>(cudaFree(memory_));
        static_cast<void>(cudaFreeHost(pinned_));
        static_cast<void>(cudaStreamDestroy(stream_));
        static_cast<void>(cudaStreamDestroy(other_));
        static_cast<void>(cudaGetLastError());
    }
    [[nodiscard]] int* device() const { return static_cast<int*>(memory_); }
    [[nodiscard]] int* values() const { return static_cast<int*>(pinned_); }
    void give() const {
        ASSERT_EQ(cudaMemcpyAsync(memory_, pinned_, sizeof(int) * count, cudaMemcpyDefault, stream_),
                  cudaSuccess);
    }
    void take() const {
        ASSERT_EQ(cudaMemcpyAsync(pinned_, memory_, sizeof(int) * count, cudaMemcpyDefault, stream_),
                  cudaSuccess);
    }

    static constexpr int count = 256;
    cudaStream_t stream_ = nullptr;
    cudaStream_t other_ = nullptr;
    void* memory_ = nullptr;
    void* pinned_ = nullptr;
};

TEST_F(Runtime, WorkOfAStreamIsDoneInItsOrder) {
    give();
    for (int i = 0; i < 5; ++i)
        start_add_one(device(), count, stream_);
    take();
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    for (int i = 0; i < count; ++i)
        EXPECT_EQ(values()[i], i + 5);
}

TEST_F(Runtime, WhoDoesNotWaitSeesThatItIsNotThere) {
    int early = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        set_schedule(seed);
        cudaStream_t stream = nullptr;
        ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
        values()[0] = 0;
        ASSERT_EQ(cudaMemsetAsync(memory_, 1, 4, stream), cudaSuccess);
        ASSERT_EQ(cudaMemcpyAsync(pinned_, memory_, 4, cudaMemcpyDefault, stream), cudaSuccess);
        early += values()[0] == 0 ? 1 : 0;
        ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        EXPECT_EQ(values()[0], 0x01010101);
        ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    EXPECT_GE(early, 10);
}

TEST_F(Runtime, AnEventOrdersStreams) {
    cudaEvent_t event = nullptr;
    ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    give();
    start_add_one(device(), count, stream_);
    ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other_, event, 0), cudaSuccess);
    start_add_one(device(), count, other_);
    ASSERT_EQ(cudaMemcpyAsync(pinned_, memory_, sizeof(int) * count, cudaMemcpyDefault, other_),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
    EXPECT_EQ(values()[9], 11);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(Runtime, QueryDoesWorkBitByBit) {
    give();
    start_add_one(device(), count, stream_);
    cudaError_t said = cudaErrorNotReady;
    for (int asked = 0; said == cudaErrorNotReady && asked < 10; ++asked)
        said = cudaStreamQuery(stream_);
    EXPECT_EQ(said, cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
}

TEST_F(Runtime, AnEventIsReachedWhenWhatWasBeforeItIsDone) {
    cudaEvent_t event = nullptr;
    ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "nobody has recorded it";
    give();
    start_add_one(device(), count, stream_);
    ASSERT_EQ(cudaMemcpyAsync(pinned_, memory_, sizeof(int) * count, cudaMemcpyDefault, stream_),
              cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
    cudaError_t said = cudaErrorNotReady;
    for (int asked = 0; said == cudaErrorNotReady && asked < 20; ++asked)
        said = cudaEventQuery(event);
    EXPECT_EQ(said, cudaSuccess);
    EXPECT_EQ(values()[9], 10);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(Runtime, AGraphKeepsWhatWasCapturedAndTakesOtherArguments) {
    give();
    const auto captured = [&](int* where) {
        EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        start_add_one(where, count / 2, stream_);
        cudaGraph_t graph = nullptr;
        EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
        return graph;
    };
    cudaGraph_t first = captured(device());
    cudaGraph_t second = captured(device() + count / 2);
    cudaGraphExec_t ready = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&ready, first, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(ready, stream_), cudaSuccess);
    cudaGraphExecUpdateResultInfo info{};
    ASSERT_EQ(cudaGraphExecUpdate(ready, second, &info), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(ready, stream_), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(ready, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(memory_, 0, 4, stream_), cudaSuccess);
    cudaGraph_t fill = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream_, &fill), cudaSuccess);
    EXPECT_EQ(cudaGraphExecUpdate(ready, fill, &info), cudaErrorGraphExecUpdateFailure);
    take();
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(values()[3], 4);
    EXPECT_EQ(values()[200], 202);
    for (const cudaGraph_t graph : {first, second, fill})
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
}

TEST_F(Runtime, WhatNoCaptureMayHoldSpoilsIt) {
    int pageable = 0;
    const std::vector<std::function<cudaError_t()>> forbidden{
        [&] { return cudaStreamSynchronize(stream_); }, [&] { return cudaStreamQuery(stream_); },
        [&] { return cudaMemcpyAsync(memory_, &pageable, 4, cudaMemcpyDefault, stream_); },
        [&] { return cudaFree(memory_); }, [] { return cudaDeviceSynchronize(); }};
    for (const auto& call : forbidden) {
        cudaGraph_t graph = nullptr;
        ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
        EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
    }
}

TEST_F(Runtime, ConfigurationsThatNoDeviceHasAreRefused) {
    start_add_one(device(), 0, stream_);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(64), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaFree(values()), cudaErrorInvalidValue);
    void* large = nullptr;
    EXPECT_EQ(cudaMalloc(&large, std::size_t{1} << 40U), cudaErrorMemoryAllocation);
}

TEST_F(Runtime, PointersAreKnownForWhatTheyAre) {
    const auto type = [](const void* at) {
        cudaPointerAttributes attributes{};
        EXPECT_EQ(cudaPointerGetAttributes(&attributes, at), cudaSuccess);
        return attributes.type;
    };
    const int own = 0;
    EXPECT_EQ(type(device() + 5), cudaMemoryTypeDevice);
    EXPECT_EQ(type(values() + 5), cudaMemoryTypeHost);
    EXPECT_EQ(type(&own), cudaMemoryTypeUnregistered);
}

TEST_F(Runtime, DeviceMemoryIsNoneOfTheHosts) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer takes the signal";
#endif
    EXPECT_EXIT(std::printf("%d", *device()), testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(Runtime, AFaultLastsUntilTheLastStreamIsGone) {
    ASSERT_EQ(cudaMemsetAsync(device() + count - 1, 0, 8, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
    EXPECT_THAT(cudaGetErrorString(cudaErrorLaunchFailure),
                HasSubstr("a fill of 8 bytes goes beyond an allocation"));
    EXPECT_EQ(cudaStreamSynchronize(other_), cudaErrorLaunchFailure);
    TearDown();
    SetUp();
    give();
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(Runtime, AFreedPlaceIsNotTouchedUnseen) {
    void* gone = nullptr;
    ASSERT_EQ(cudaMalloc(&gone, sizeof(int) * count), cudaSuccess);
    start_add_one(static_cast<int*>(gone), count, stream_);
    ASSERT_EQ(cudaFree(gone), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
    EXPECT_THAT(cudaGetErrorString(cudaErrorLaunchFailure),
                testing::AllOf(HasSubstr("illegal address"), HasSubstr("small.cu:")));
}

TEST_F(Runtime, DevicesAreCountedAndChosenByEachThread) {
    int devices = 0;
    EXPECT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
    EXPECT_EQ(devices, all_devices);
    int current = -1;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, 0);
    ASSERT_EQ(cudaSetDevice(devices - 1), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(devices), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, devices - 1);
    std::thread([&] { EXPECT_EQ(cudaGetDevice(&current), cudaSuccess); }).join();
    EXPECT_EQ(current, 0);
    start_add_one(device(), count, stream_); // which belongs to another device
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(Runtime, ADeviceSaysThatItIsNone) {
    for (const int device : {0, all_devices - 1}) {
        cudaDeviceProp properties{};
        EXPECT_EQ(cudaGetDeviceProperties(&properties, device), cudaSuccess);
        EXPECT_THAT(properties.name, HasSubstr("simulated"));
        EXPECT_EQ(properties.major, 9);
        EXPECT_EQ(properties.warpSize, 32);
        EXPECT_GE(properties.multiProcessorCount, 1);
    }
    cudaDeviceProp untouched{};
    EXPECT_EQ(cudaGetDeviceProperties(&untouched, all_devices), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetDeviceProperties(&untouched, -1), cudaErrorInvalidDevice);
    EXPECT_STREQ(untouched.name, "");
}

TEST_F(Runtime, EachDeviceHasItsPlaceAndCouldReachTheOthers) {
    const auto place = [](int device, int size) {
        std::vector<char> id(32, '#');
        EXPECT_EQ(cudaDeviceGetPCIBusId(id.data(), size, device), cudaSuccess);
        EXPECT_EQ(id[static_cast<std::size_t>(size)], '#') << "it wrote beyond its room";
        return std::string(id.data());
    };
    EXPECT_EQ(place(0, 31), place(0, 31));
    EXPECT_NE(place(0, 31), place(1, 31));
    EXPECT_EQ(place(7, 4), place(7, 31).substr(0, 3));
    char id[8] = "";
    EXPECT_EQ(cudaDeviceGetPCIBusId(id, 8, all_devices), cudaErrorInvalidDevice);
    int can = 0;
    EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
    EXPECT_EQ(can, 1);
}

TEST_F(Runtime, MemoryOfTheHostIsMappedAndGivenBack) {
    void* mapped = nullptr;
    ASSERT_EQ(cudaHostAlloc(&mapped, sizeof(int) * count, cudaHostAllocMapped), cudaSuccess);
    auto* const seen = static_cast<int*>(mapped);
    std::fill_n(seen, count, 40);
    start_add_one(seen, count, stream_); // as device memory, by the same pointer
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(seen[count - 1], 41);
    EXPECT_EQ(cudaFree(mapped), cudaErrorInvalidValue) << "it is none of the device's";
    EXPECT_EQ(cudaFreeHost(mapped), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(mapped), cudaErrorInvalidValue) << "it has been given back";
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(cudaHostAlloc(&mapped, 4, cudaHostAllocDefault), cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Runtime, AKernelIsLaunchedByItsFunction) {
    give();
    int* values_at = device();
    int how_many = count - 1;
    void* arguments[] = {&values_at, &how_many};
    EXPECT_EQ(cudaLaunchKernel(add_one_function(), {4, 1, 1}, {64, 1, 1}, arguments, 0, stream_),
              cudaSuccess);
    take();
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(values()[count - 2], count - 1);
    EXPECT_EQ(values()[count - 1], count - 1) << "the second argument was not heeded";
    EXPECT_EQ(cudaLaunchKernel(add_one_function(), {4, 2, 1}, {64, 1, 1}, arguments, 0, stream_),
              cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaLaunchKernel(add_one_function(), {4, 1, 1}, {64, 1, 1}, arguments, 64, stream_),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaLaunchKernel(&how_many, {4, 1, 1}, {64, 1, 1}, arguments, 0, stream_),
              cudaErrorInvalidDeviceFunction);
}

TEST_F(Runtime, CopiesAndFillsWithoutAStreamAreDoneInOrder) {
    std::vector<int> own(count, 5);
    ASSERT_EQ(cudaMemcpy(memory_, own.data(), sizeof(int) * count, cudaMemcpyDefault), cudaSuccess);
    std::fill(own.begin(), own.end(), 0); // it has been read
    EXPECT_EQ(cudaMemset(device() + 1, 0x11, sizeof(int)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(own.data(), memory_, sizeof(int) * count, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(own[0], 5);
    EXPECT_EQ(own[1], 0x11111111);
    EXPECT_EQ(own[2], 5);
    EXPECT_EQ(own[count - 1], 5);
    EXPECT_EQ(cudaMemset(device() + count - 1, 0, 8), cudaSuccess) << "it only begins";
    EXPECT_EQ(cudaMemcpy(own.data(), memory_, 4, cudaMemcpyDefault), cudaErrorLaunchFailure);
}

/// The example of gpu/README.md: the reduction is right, and without its barrier every schedule
/// finds the race.
TEST_F(Runtime, AReductionWithoutItsBarrierIsFound) {
    void* sums = nullptr;
    ASSERT_EQ(cudaMalloc(&sums, sizeof(int) * 2), cudaSuccess);
    give();
    start_reduce(device(), static_cast<int*>(sums), 2, true, stream_);
    int right[2] = {0, 0};
    ASSERT_EQ(cudaMemcpyAsync(right, sums, sizeof right, cudaMemcpyDefault, stream_), cudaSuccess);
    EXPECT_EQ(right[0], 127 * 128 / 2);
    EXPECT_EQ(right[1], 127 * 128 / 2 + 128 * 128);
    start_reduce(device(), static_cast<int*>(sums), 2, false, stream_);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
    EXPECT_THAT(cudaGetErrorString(cudaErrorLaunchFailure),
                testing::AllOf(HasSubstr("race in shared memory"), HasSubstr("small.cu:")));
    static_cast<void>(cudaFree(sums));
}

} // namespace
} // namespace truestep::simulator
