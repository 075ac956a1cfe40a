#pragma once

// What all exchanges by NCCL share, among all ranks or between two.

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <nccl.h>
#include <unistd.h>

#include <truestep/gpu/cuda_device_stream.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gpu::nccl {

/// Which device a rank has: the machine's name and the place on its bus.
struct DeviceSlot {
    std::array<char, 256> host{};
    std::array<char, 32> bus{};
    bool operator==(const DeviceSlot&) const = default;
};

inline DeviceSlot seat_of(int device) {
    DeviceSlot seat;
    static_cast<void>(gethostname(seat.host.data(), seat.host.size() - 1));
    check_cuda(cudaDeviceGetPCIBusId(seat.bus.data(), static_cast<int>(seat.bus.size()), device),
               "asking for the device's place");
    return seat;
}

/// Refuses a shared device, with which the library would wait for itself.
inline void refuse_shared_device(std::size_t one, const DeviceSlot& seat, std::size_t other,
                                 const DeviceSlot& others) {
    if (seat == others)
        throw Error("nccl: ranks " + std::to_string(std::min(one, other)) + " and " +
                    std::to_string(std::max(one, other)) + " have the same device, " + seat.bus.data() +
                    " of " + seat.host.data() + "; give each rank one of its own");
}
inline void refuse_shared_devices(const std::vector<DeviceSlot>& seats) {
    for (std::size_t one = 0; one < seats.size(); ++one)
        for (std::size_t other = 0; other < one; ++other)
            refuse_shared_device(one, seats[one], other, seats[other]);
}

/// A communicator of the library, which ends with its owner.
class Comm {
  public:
    Comm() = default;
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    ~Comm() {
        if (comm_ != nullptr)
            static_cast<void>(ncclCommDestroy(comm_));
    }
    [[nodiscard]] ncclComm_t& get() { return comm_; }
    /// Begins to join without blocking, since a rank may never come.
    [[nodiscard]] ncclResult_t join(const ncclUniqueId& id, int size, int rank) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        return ncclCommInitRankConfig(&comm_, size, id, rank, &config);
    }
    /// Aborts the communicator and the work that is under way.
    void end() noexcept {
        if (comm_ != nullptr)
            static_cast<void>(ncclCommAbort(std::exchange(comm_, nullptr)));
    }
    /// Finishes when all ranks have finished, when `gone` reports a failed rank, or at the timeout.
    template <class Gone>
    void finish(std::chrono::steady_clock::duration timeout, const Gone& gone) noexcept {
        if (comm_ == nullptr)
            return;
        const auto begin = std::chrono::steady_clock::now();
        ncclResult_t state = ncclCommFinalize(comm_);
        while (state == ncclInProgress && !gone() && std::chrono::steady_clock::now() - begin < timeout)
            if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess)
                break;
        if (state == ncclSuccess)
            static_cast<void>(ncclCommDestroy(std::exchange(comm_, nullptr)));
        end();
    }

  private:
    ncclComm_t comm_ = nullptr;
};

/// Calls that begin together. A group belongs to the thread: an error that leaves it ends it all
/// the same. An error within it is reported only after its end, since the communicator cannot be
/// aborted before.
class Group {
  public:
    Group() { tell(ncclGroupStart(), "beginning a group"); }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    ~Group() {
        if (open_)
            static_cast<void>(ncclGroupEnd());
    }
    void tell(ncclResult_t result, const char* what) {
        if (result == ncclSuccess || result == ncclInProgress || result_ != ncclSuccess)
            return;
        result_ = result;
        what_ = what;
    }
    /// Returns the first failure, and the action that failed.
    [[nodiscard]] std::pair<ncclResult_t, const char*> end() {
        open_ = false;
        tell(ncclGroupEnd(), "starting a group");
        return {result_, what_};
    }

  private:
    bool open_ = true;
    ncclResult_t result_ = ncclSuccess;
    const char* what_ = "";
};

inline std::string seconds_text(std::chrono::milliseconds timeout) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) + " s";
}

} // namespace truestep::gpu::nccl
