#pragma once

// Ranks of a simulated NCCL, as threads with a device each.

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "nccl_exchange.hpp"

namespace truestep::simulator::tests {

using testing::AllOf;
using testing::HasSubstr;

constexpr int count = 96;

/// One rank, with a device, a stream and two vectors of floats in its memory: value i of `send` is 100 rank
/// + i.
struct Rank {
    int rank = 0;
    int ranks = 0;
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    cudaStream_t beside = nullptr;
    float* send = nullptr;
    float* receive = nullptr;

    /// Waits until the communicator is no longer in progress.
    [[nodiscard]] ncclResult_t settled(ncclComm_t of) const {
        ncclResult_t state = ncclInProgress;
        while (state == ncclInProgress)
            if (const ncclResult_t asked = ncclCommGetAsyncError(of, &state); asked != ncclSuccess)
                return asked;
        return state;
    }
    [[nodiscard]] ncclResult_t settled() const { return settled(comm); }
    [[nodiscard]] std::vector<float> received(int values) const {
        std::vector<float> all(static_cast<std::size_t>(values));
        EXPECT_EQ(
            cudaMemcpyAsync(all.data(), receive, all.size() * sizeof(float), cudaMemcpyDefault, stream),
            cudaSuccess);
        return all;
    }
};

/// Returns when `all` threads have come.
inline void meet(std::atomic<int>& come, int all) {
    ++come;
    while (come < all)
        std::this_thread::yield();
}

inline std::string failure() {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    return device.why();
}

class Nccl : public testing::Test {
  protected:
    Nccl() { Device::get().patience = std::chrono::milliseconds(1500); }
    ~Nccl() override { Device::get().patience = std::chrono::milliseconds(20'000); }

    /// Each rank does the work in a thread, with a communicator of all. Returns the failure of the
    /// devices. `without`: a rank that never comes.
    std::string with(int ranks, const std::function<void(Rank&)>& work, bool blocking = false,
                     std::uint64_t seed = 3) {
        ncclUniqueId id{};
        EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
        std::vector<std::thread> threads;
        std::atomic<int> joined = 0;
        std::atomic<int> through = 0;
        std::atomic<int> ended = 0;
        std::string why;
        for (int rank = 0; rank < ranks; ++rank)
            threads.emplace_back([&, rank] {
                Rank own{.rank = rank, .ranks = ranks};
                begin(own, seed);
                ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                config.blocking = blocking ? 1 : 0;
                const ncclResult_t said = ncclCommInitRankConfig(&own.comm, ranks, id, rank, &config);
                EXPECT_EQ(said, blocking ? ncclSuccess : ncclInProgress);
                EXPECT_EQ(own.settled(), ncclSuccess);
                meet(joined, ranks); // no rank breaks a rule before all have joined
                work(own);
                if (own.comm != nullptr)
                    static_cast<void>(ncclCommAbort(own.comm));
                // The last stream's end clears the failure.
                meet(through, ranks);
                if (rank == 0)
                    why = failure();
                meet(ended, ranks);
                end(own);
            });
        for (std::thread& thread : threads)
            thread.join();
        return why;
    }

    static void begin(Rank& own, std::uint64_t seed) {
        ASSERT_EQ(cudaSetDevice(own.rank), cudaSuccess);
        set_schedule(seed + 100 * static_cast<std::uint64_t>(own.rank));
        ASSERT_EQ(cudaStreamCreate(&own.stream), cudaSuccess);
        ASSERT_EQ(cudaStreamCreate(&own.beside), cudaSuccess);
        std::vector<float> values(count);
        for (int i = 0; i < count; ++i)
            values[static_cast<std::size_t>(i)] = static_cast<float>(100 * own.rank + i);
        void* at = nullptr;
        ASSERT_EQ(cudaMalloc(&at, count * sizeof(float)), cudaSuccess);
        own.send = static_cast<float*>(at);
        ASSERT_EQ(cudaMalloc(&at, 8 * count * sizeof(float)), cudaSuccess);
        own.receive = static_cast<float*>(at);
        ASSERT_EQ(
            cudaMemcpyAsync(own.send, values.data(), count * sizeof(float), cudaMemcpyDefault, own.stream),
            cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
    }
    static void end(Rank& own) {
        static_cast<void>(cudaFree(own.send));
        static_cast<void>(cudaFree(own.receive));
        static_cast<void>(cudaStreamDestroy(own.beside));
        static_cast<void>(cudaStreamDestroy(own.stream));
    }
};

inline float value(int rank, int i) {
    return static_cast<float>(100 * rank + i);
}

} // namespace truestep::simulator::tests
