// Sends messages between pairs of ranks by NCCL, as one group of sends and receives on the stream.
#include <truestep/gpu/nccl.hpp>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>
#include <vector>

#include <truestep/gpu/staged_peers.hpp>

#include "nccl_ranks.hpp"

namespace truestep::gpu {

namespace {

using distributed::IncomingMessage;
using distributed::Peers;

class NcclPeers final : public nccl::RankPeers {
  public:
    NcclPeers(Peers& ranks, const CudaStream& stream, const NcclOptions& options)
        : RankPeers(ranks, stream, {Traffic::parameters}, options) {
        nccl::refuse_shared_devices(distributed::gather_records(ranks_, nccl::seat_of(shared_.device())));
        ncclUniqueId mine{};
        if (rank() == 0)
            check(ncclGetUniqueId(&mine), "making an identity for the ranks");
        const ncclUniqueId id = distributed::gather_records(ranks_, mine).front();
        check(comm_.join(id, size(), rank()), "joining the ranks");
        settle(comm_.get(), "joining the ranks");
        shared_.watch([this](Clock::duration waited) { look_after(waited); });
    }
    NcclPeers(const NcclPeers&) = delete;
    NcclPeers& operator=(const NcclPeers&) = delete;
    ~NcclPeers() override {
        shared_.watch({});
        if (unwinding())
            comm_.end();
        comm_.finish(options_.timeout, [this] { return failed(); });
    }

    void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
              std::size_t bytes) override {
        if (!stands(traffic)) {
            ranks_.send(traffic, peer, number, std::move(message), bytes);
            return;
        }
        sent_.push_back({peer, number, std::move(message), bytes});
    }

    [[nodiscard]] std::unique_ptr<IncomingMessage> receive(Traffic traffic, int peer, std::uint64_t number,
                                                           std::size_t bytes) override {
        if (!stands(traffic))
            return ranks_.receive(traffic, peer, number, bytes);
        auto asked = std::make_shared<AwaitedMessage>(AwaitedMessage{peer, number, unused(bytes), bytes});
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
    struct AwaitedMessage {
        int peer;
        std::uint64_t number;
        std::shared_ptr<Bytes> to;
        std::size_t bytes;
        bool started = false;
    };

    class Received final : public IncomingMessage {
      public:
        Received(NcclPeers& peers, std::shared_ptr<AwaitedMessage> asked)
            : peers_(peers), asked_(std::move(asked)) {}
        const std::byte* wait(std::size_t) override {
            if (!asked_->started)
                peers_.start_group();
            return asked_->to->data();
        }

      private:
        NcclPeers& peers_;
        std::shared_ptr<AwaitedMessage> asked_;
    };

    void end_all() noexcept override { comm_.end(); }

    /// Starts everything that was asked for and sent. Later work on the stream comes after it, so
    /// sent memory may be overwritten.
    void start_group() {
        std::vector<Sent> sent = std::exchange(sent_, {});
        auto asked = std::exchange(asked_, {});
        with_.clear();
        const std::exception_ptr missing = meet(sent, asked);
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
        settle(comm_.get(), "starting an exchange");
        if (missing) {
            stream_.synchronize();
            std::rethrow_exception(missing);
        }
    }

    /// The host finds out who is there before the device waits. Who has ended is taken out, and the
    /// first of the reasons returned: the others have the record, and count on this rank.
    std::exception_ptr meet(std::vector<Sent>& sent, std::vector<std::shared_ptr<AwaitedMessage>>& asked) {
        std::vector<std::unique_ptr<IncomingMessage>> incoming;
        for (const auto& one : asked) {
            with_.push_back(one->peer);
            incoming.push_back(ranks_.receive(Traffic::agreement, one->peer, one->number, 0));
        }
        for (const Sent& one : sent) {
            with_.push_back(one.peer);
            ranks_.send(Traffic::agreement, one.peer, one.number, nullptr, 0);
        }
        std::ranges::sort(with_);
        with_.erase(std::unique(with_.begin(), with_.end()), with_.end());
        std::exception_ptr missing;
        std::set<int> ended;
        for (std::size_t i = 0; i < incoming.size(); ++i)
            try {
                static_cast<void>(incoming[i]->wait(0));
            } catch (const distributed::Aborted&) {
                ended.insert(asked[i]->peer);
                missing = missing ? missing : std::current_exception();
            }
        std::erase_if(sent, [&](const Sent& one) { return ended.contains(one.peer); });
        std::erase_if(asked, [&](const auto& one) { return ended.contains(one->peer); });
        return missing;
    }

    /// Runs while the host waits for the stream.
    void look_after(Clock::duration waited) {
        if (comm_.get() == nullptr)
            return;
        static_cast<void>(has_settled(comm_.get(), "an exchange"));
        ranks_.progress();
        refuse_delay(waited, "an exchange");
    }

    nccl::Comm comm_;
    std::vector<Sent> sent_;
    std::vector<std::shared_ptr<AwaitedMessage>> asked_;
};

} // namespace

std::unique_ptr<Peers> make_nccl_peers(Peers& ranks, const CudaStream& stream, const NcclOptions& options) {
    return std::make_unique<NcclPeers>(ranks, stream, options);
}

} // namespace truestep::gpu
