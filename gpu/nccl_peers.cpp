#include <scape/gpu/nccl.hpp>

#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <scape/gpu/cuda_machine.hpp>
#include <scape/gpu/staged_peers.hpp>

#include "nccl_parts.hpp"

namespace scape::gpu {

namespace {

using Clock = std::chrono::steady_clock;
using distributed::Incoming;
using distributed::Peers;
using distributed::Traffic;
using Floats = CudaMachine::Vector<float>;

/// "rank 2", "ranks 2, 5".
std::string ranks_text(const std::set<int>& ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (const int rank : ranks)
        text += (rank == *ranks.begin() ? "" : ", ") + std::to_string(rank);
    return text;
}

class NcclPeers final : public Peers {
  public:
    NcclPeers(Peers& ranks, const CudaStream& stream, const NcclOptions& options)
        : ranks_(ranks), options_(options), shared_(stream), stream_(stream),
          machine_(stream, Exchange::device) {
        nccl::refuse_shared_devices(distributed::gather_records(ranks_, nccl::seat_of(shared_.device())));
        ncclUniqueId mine{};
        if (rank() == 0)
            check(ncclGetUniqueId(&mine), "making an identity for the ranks");
        const ncclUniqueId id = distributed::gather_records(ranks_, mine).front();
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0; // a rank that never comes shall not hold the others
        check(ncclCommInitRankConfig(&comm_.get(), size(), id, rank(), &config), "joining the ranks");
        settle("joining the ranks");
        shared_.watch([this](Clock::duration waited) { look_after(waited, "an exchange"); });
    }
    NcclPeers(const NcclPeers&) = delete;
    NcclPeers& operator=(const NcclPeers&) = delete;
    /// A rank that fails does not stay for the others.
    ~NcclPeers() override {
        shared_.watch({});
        if (std::uncaught_exceptions() > exceptions_)
            comm_.end();
        comm_.finish(options_.timeout, [this] { return failed(); });
    }

    [[nodiscard]] int rank() const override { return ranks_.rank(); }
    [[nodiscard]] int size() const override { return ranks_.size(); }
    [[nodiscard]] std::string name() const override { return "nccl"; }
    [[nodiscard]] bool host_can_read(Traffic traffic) const override {
        return !stands_on_machine(traffic) && ranks_.host_can_read(traffic);
    }
    void progress() override { ranks_.progress(); }
    void leave(const std::string& reason) noexcept override { ranks_.leave(reason); }

    void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
              std::size_t bytes) override {
        if (!stands_on_machine(traffic)) {
            ranks_.send(traffic, peer, number, std::move(message), bytes);
            return;
        }
        sent_.push_back({peer, number, std::move(message), bytes});
    }

    [[nodiscard]] std::unique_ptr<Incoming> receive(Traffic traffic, int peer, std::uint64_t number,
                                                    std::size_t bytes) override {
        if (!stands_on_machine(traffic))
            return ranks_.receive(traffic, peer, number, bytes);
        auto asked = std::make_shared<Asked>(Asked{peer, number, unused(bytes), bytes});
        asked_.push_back(asked);
        return std::make_unique<Received>(*this, std::move(asked));
    }

  private:
    struct Sent {
        int peer;
        std::uint64_t number;
        std::shared_ptr<const void> message;
        std::size_t bytes;
    };
    struct Asked {
        int peer;
        std::uint64_t number;
        std::shared_ptr<Floats> to;
        std::size_t bytes;
        bool started = false;
    };

    class Received final : public Incoming {
      public:
        Received(NcclPeers& peers, std::shared_ptr<Asked> asked)
            : peers_(peers), asked_(std::move(asked)) {}
        const std::byte* wait(std::size_t) override {
            if (!asked_->started)
                peers_.start_group();
            return reinterpret_cast<const std::byte*>(asked_->to->data());
        }

      private:
        NcclPeers& peers_;
        std::shared_ptr<Asked> asked_;
    };

    /// All that has been asked for and sent. What comes next on the stream comes after it, so that memory
    /// that has been sent may be written again.
    void start_group() {
        const std::vector<Sent> sent = std::exchange(sent_, {});
        const auto asked = std::exchange(asked_, {});
        with_.clear();
        meet(sent, asked);
        if (comm_.get() == nullptr)
            throw distributed::Aborted("rank " + std::to_string(rank()) + ": NCCL has been ended");
        auto* const stream = stream_.state().at_once();
        constexpr const char* what = "sending and receiving in a group";
        nccl::Group group;
        for (const Sent& one : sent)
            if (one.bytes > 0)
                group.tell(ncclSend(one.message.get(), one.bytes, ncclUint8, one.peer, comm_.get(), stream),
                           what);
        for (const auto& one : asked) {
            if (one->bytes > 0)
                group.tell(ncclRecv(one->to->data(), one->bytes, ncclUint8, one->peer, comm_.get(), stream),
                           what);
            one->started = true;
        }
        check(group.end().first, what);
        settle("starting an exchange");
    }

    /// The host learns who is there, before the device waits for anybody.
    void meet(const std::vector<Sent>& sent, const std::vector<std::shared_ptr<Asked>>& asked) {
        std::vector<std::unique_ptr<Incoming>> incoming;
        for (const auto& one : asked) {
            with_.insert(one->peer);
            incoming.push_back(ranks_.receive(Traffic::agreement, one->peer, one->number, 0));
        }
        for (const Sent& one : sent) {
            with_.insert(one.peer);
            ranks_.send(Traffic::agreement, one.peer, one.number, nullptr, 0);
        }
        for (const auto& one : incoming)
            static_cast<void>(one->wait(0));
    }

    [[nodiscard]] std::shared_ptr<Floats> unused(std::size_t bytes) {
        const auto size = static_cast<Index>(bytes / sizeof(float));
        for (const auto& vector : arrived_)
            if (vector->size() == size && distributed::is_let_go(vector))
                return vector;
        arrived_.push_back(std::make_shared<Floats>());
        machine_.resize(*arrived_.back(), size);
        return arrived_.back();
    }

    void check(ncclResult_t result, const char* what) {
        if (result != ncclSuccess && result != ncclInProgress)
            fail(std::string(what) + ": " + ncclGetErrorString(result));
    }

    [[noreturn]] void fail(const std::string& what) {
        const std::string text = "rank " + std::to_string(rank()) + ": NCCL" +
                                 (with_.empty() ? "" : ", with " + ranks_text(with_)) + ": " + what;
        comm_.end();
        ranks_.leave(text);
        throw distributed::Aborted(text);
    }

    /// Until the library has done what it was told.
    void settle(const char* what) {
        const auto begin = Clock::now();
        for (;;) {
            ncclResult_t state = ncclSuccess;
            check(ncclCommGetAsyncError(comm_.get(), &state), what);
            check(state, what);
            if (state == ncclSuccess)
                return;
            ranks_.progress();
            refuse_delay(Clock::now() - begin, what);
        }
    }

    bool failed() noexcept {
        try {
            ranks_.progress();
            return false;
        } catch (...) {
            return true;
        }
    }

    /// While the host waits for the stream.
    void look_after(Clock::duration waited, const char* what) {
        if (comm_.get() == nullptr)
            return;
        ncclResult_t state = ncclSuccess;
        check(ncclCommGetAsyncError(comm_.get(), &state), what);
        check(state, what);
        ranks_.progress();
        refuse_delay(waited, what);
    }

    void refuse_delay(Clock::duration waited, const char* what) {
        if (waited >= options_.timeout)
            fail(std::string(what) + " did not end within " + nccl::seconds_text(options_.timeout));
    }

    Peers& ranks_;
    NcclOptions options_;
    CudaStream shared_;
    CudaDeviceStream stream_;
    CudaMachine machine_;
    nccl::Comm comm_;
    int exceptions_ = std::uncaught_exceptions();
    std::vector<Sent> sent_;
    std::vector<std::shared_ptr<Asked>> asked_;
    std::vector<std::shared_ptr<Floats>> arrived_;
    std::set<int> with_; ///< whom the last group is with
};

} // namespace

std::unique_ptr<Peers> make_nccl_peers(Peers& ranks, const CudaStream& stream, const NcclOptions& options) {
    return std::make_unique<NcclPeers>(ranks, stream, options);
}

} // namespace scape::gpu
