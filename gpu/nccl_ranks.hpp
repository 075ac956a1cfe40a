#pragma once

// What all peers over NCCL share: what they pass on to the ranks beneath, how they detect errors,
// and where received messages are put.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/missing.hpp>
#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/cuda_machine.hpp>
#include <truestep/gpu/nccl.hpp>

#include "nccl_device_slots.hpp"

namespace truestep::gpu::nccl {

class RankPeers : public distributed::Peers {
  public:
    using Clock = std::chrono::steady_clock;
    using Traffic = distributed::Traffic;
    using Bytes = CudaMachine::Vector<std::byte>;

    RankPeers(distributed::Peers& ranks, const CudaStream& stream, std::vector<Traffic> on_device,
              const NcclOptions& options)
        : ranks_(ranks), options_(options), shared_(stream), stream_(stream),
          machine_(stream, Exchange::device), on_device_(std::move(on_device)) {}

    [[nodiscard]] int rank() const override { return ranks_.rank(); }
    [[nodiscard]] int size() const override { return ranks_.size(); }
    [[nodiscard]] std::string name() const override { return "nccl"; }
    [[nodiscard]] bool host_can_read(Traffic traffic) const override {
        return !stands(traffic) && ranks_.host_can_read(traffic);
    }
    void must_go_on(Traffic traffic, int peer, std::uint64_t number) override {
        ranks_.must_go_on(traffic, peer, number);
    }
    void progress() override { ranks_.progress(); }
    void leave(const std::string& reason) noexcept override { ranks_.leave(reason); }

    void abandon() noexcept override { end_all(); }

  protected:
    /// Ends all communicators and the work under way in them.
    virtual void end_all() noexcept = 0;

    [[nodiscard]] bool stands(Traffic traffic) const {
        return std::ranges::find(on_device_, traffic) != on_device_.end();
    }

    void check(ncclResult_t result, const char* what) {
        if (result != ncclSuccess && result != ncclInProgress)
            fail(std::string(what) + ": " + ncclGetErrorString(result));
    }

    [[noreturn]] void fail(const std::string& what) {
        const std::string text = "rank " + std::to_string(rank()) + ": NCCL" +
                                 (with_.empty() ? "" : ", with " + distributed::ranks_text(with_)) + ": " +
                                 what;
        end_all();
        ranks_.leave(text);
        throw distributed::Aborted(text);
    }

    /// Polls until the library has finished.
    void settle(ncclComm_t comm, const char* what) {
        const auto begin = Clock::now();
        while (!has_settled(comm, what)) {
            ranks_.progress();
            refuse_delay(Clock::now() - begin, what);
        }
    }

    [[nodiscard]] bool has_settled(ncclComm_t comm, const char* what) {
        ncclResult_t state = ncclSuccess;
        check(ncclCommGetAsyncError(comm, &state), what);
        check(state, what);
        return state == ncclSuccess;
    }

    [[nodiscard]] bool failed() noexcept {
        try {
            ranks_.progress();
            return false;
        } catch (...) {
            return true;
        }
    }

    void refuse_delay(Clock::duration waited, const char* what) {
        if (waited >= options_.timeout)
            fail(std::string(what) + " did not end within " + seconds_text(options_.timeout));
    }

    /// Whether an error destroys the owner, which then does not wait for the others.
    [[nodiscard]] bool unwinding() const { return std::uncaught_exceptions() > exceptions_; }

    /// Memory for a received message: an unused vector that is large enough, or a new one.
    [[nodiscard]] std::shared_ptr<Bytes> unused(std::size_t bytes) {
        const auto size = static_cast<Index>(bytes);
        for (const auto& vector : arrived_)
            if (vector->size() >= size && distributed::is_let_go(vector))
                return vector;
        arrived_.push_back(std::make_shared<Bytes>());
        machine_.resize(*arrived_.back(), size);
        // If the exchange is aborted, work that was put behind a message still reads its memory.
        machine_.fill(*arrived_.back(), 0);
        return arrived_.back();
    }

    distributed::Peers& ranks_;
    NcclOptions options_;
    CudaStream shared_;
    CudaDeviceStream stream_;
    std::vector<int> with_; ///< the ranks involved in the current action

  private:
    CudaMachine machine_;
    std::vector<Traffic> on_device_;
    std::vector<std::shared_ptr<Bytes>> arrived_;
    int exceptions_ = std::uncaught_exceptions();
};

} // namespace truestep::gpu::nccl
