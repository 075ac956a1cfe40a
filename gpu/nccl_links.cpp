// Links: a communicator and a stream for each direction between two ranks.
#include <truestep/gpu/nccl.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>

#include "nccl_ranks.hpp"

namespace truestep::gpu {

namespace {

using distributed::IncomingMessage;
using distributed::Label;
using distributed::Peers;
using distributed::Traffic;

class NcclLinks final : public nccl::RankPeers {
  public:
    NcclLinks(Peers& ranks, const CudaStream& stream, std::vector<Traffic> on_device, std::vector<int> with,
              const NcclOptions& options)
        : RankPeers(ranks, stream, std::move(on_device), options) {
        // All ranks take the pairs in the same order, so that no two wait for each other.
        std::ranges::sort(with);
        try {
            for (const int peer : with)
                meet(peer);
        } catch (...) {
            end_all();
            throw;
        }
        shared_.watch([this](Clock::duration waited) { look_after(waited); });
    }
    NcclLinks(const NcclLinks&) = delete;
    NcclLinks& operator=(const NcclLinks&) = delete;
    ~NcclLinks() override {
        if (unwinding() || broken_)
            end_all();
        else
            part();
        shared_.watch({});
        for (auto& one : links_) {
            const int peer = one.first.first == rank() ? one.first.second : one.first.first;
            one.second.comm.finish(options_.timeout, [&] { return gone(peer); });
        }
    }

    void abandon() noexcept override {
        broken_ = true;
        end_all();
    }
    void progress() override {
        let_go();
        ranks_.progress();
    }

    void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
              std::size_t bytes) override {
        if (!stands(traffic)) {
            ranks_.send(traffic, peer, number, std::move(message), bytes);
            return;
        }
        let_go();
        if (bytes > 0) {
            Link& link = usable(rank(), peer);
            link.stream.wait(stream_.record()); // what makes it comes first
            begin(link, "sending", [&](cudaStream_t on) {
                return ncclSend(message.get(), bytes, ncclUint8, 1, link.comm.get(), on);
            });
            link.leaving.emplace_back(std::move(message), link.stream.record());
        }
        const auto told = std::make_shared<std::uint64_t>(bytes);
        ranks_.send(traffic, peer, number, told, sizeof *told);
    }

    [[nodiscard]] std::unique_ptr<IncomingMessage> receive(Traffic traffic, int peer, std::uint64_t number,
                                                           std::size_t bytes) override {
        if (!stands(traffic))
            return ranks_.receive(traffic, peer, number, bytes);
        auto asked = std::make_shared<AwaitedMessage>();
        asked->label = {traffic, number, bytes};
        asked->told = ranks_.receive(traffic, peer, number, sizeof(std::uint64_t));
        Link& link = usable(peer, rank());
        link.asked.push_back(asked);
        return std::make_unique<Received>(*this, link, std::move(asked));
    }

  private:
    static constexpr std::uint64_t goodbye = 1;

    struct AwaitedMessage {
        Label label;
        std::unique_ptr<IncomingMessage> told; ///< that it has been sent, and of how many bytes it is
        std::shared_ptr<Bytes> to;
        bool begun = false;
    };

    /// One direction. Rank 0 of its communicator sends, rank 1 receives.
    struct Link {
        Link(int sender, CudaDeviceStream beside) : from(sender), stream(std::move(beside)) {}
        int from;
        CudaDeviceStream stream;
        nccl::Comm comm;
        std::deque<std::pair<std::shared_ptr<const void>, CudaDeviceStream::Event>> leaving;
        std::deque<std::shared_ptr<AwaitedMessage>> asked;
        struct IncomingTransfer {
            Label label;
            CudaDeviceStream::Event done;
        };
        std::optional<IncomingTransfer> coming; ///< the last that this rank has begun to receive
    };

    class Received final : public IncomingMessage {
      public:
        Received(NcclLinks& peers, Link& link, std::shared_ptr<AwaitedMessage> asked)
            : peers_(peers), link_(link), asked_(std::move(asked)) {}
        const std::byte* wait(std::size_t) override {
            if (!asked_->begun)
                peers_.take(link_, *asked_);
            return asked_->to->data();
        }

      private:
        NcclLinks& peers_;
        Link& link_;
        std::shared_ptr<AwaitedMessage> asked_;
    };

    struct Greeting {
        nccl::DeviceSlot seat{};
        ncclUniqueId id{}; ///< of the link from its sender
    };

    void meet(int peer) {
        with_ = {peer};
        const auto mine = std::make_shared<Greeting>();
        mine->seat = nccl::seat_of(shared_.device());
        check(ncclGetUniqueId(&mine->id), "making an identity for a link");
        const auto incoming = ranks_.receive(Traffic::agreement, peer, 0, sizeof(Greeting));
        ranks_.send(Traffic::agreement, peer, 0, mine, sizeof(Greeting));
        Greeting other;
        std::memcpy(&other, incoming->wait(sizeof other), sizeof other);
        nccl::refuse_shared_device(static_cast<std::size_t>(rank()), mine->seat,
                                   static_cast<std::size_t>(peer), other.seat);
        const int lower = std::min(rank(), peer);
        const int upper = std::max(rank(), peer);
        for (const auto& [from, to] : {std::pair(lower, upper), std::pair(upper, lower)})
            join(from, to, from == rank() ? mine->id : other.id);
    }

    /// A link connects at its first message, for which both sides have to wait for each other. That
    /// is done here, while neither waits for anything else.
    void join(int from, int to, const ncclUniqueId& id) {
        Link& link = links_.try_emplace({from, to}, from, stream_.beside()).first->second;
        const bool sends = from == rank();
        check(link.comm.join(id, 2, sends ? 0 : 1), "joining two ranks");
        settle(link.comm.get(), "joining two ranks");
        constexpr std::size_t bytes = 64;
        const std::shared_ptr<Bytes> first = unused(bytes);
        link.stream.wait(stream_.record());
        begin(link, "a first message", [&](cudaStream_t on) {
            return sends ? ncclSend(first->data(), bytes, ncclUint8, 1, link.comm.get(), on)
                         : ncclRecv(first->data(), bytes, ncclUint8, 0, link.comm.get(), on);
        });
        link.stream.state().check = [this](Clock::duration waited) { look_after(waited); };
        link.stream.synchronize();
    }

    /// Receives every message that was asked for, even if unwanted, since its sender's device waits
    /// until then. A rank leaves when the other has all its messages.
    void part() noexcept {
        try {
            std::set<int> peers;
            for (auto& [pair, link] : links_) {
                peers.insert(pair.first == rank() ? pair.second : pair.first);
                if (!link.asked.empty())
                    take(link, *std::shared_ptr<AwaitedMessage>(link.asked.back()));
                if (pair.second == rank())
                    link.stream.synchronize();
            }
            std::vector<std::unique_ptr<IncomingMessage>> goodbyes;
            goodbyes.reserve(peers.size());
            for (const int peer : peers)
                goodbyes.push_back(ranks_.receive(Traffic::agreement, peer, goodbye, 0));
            for (const int peer : peers)
                ranks_.send(Traffic::agreement, peer, goodbye, nullptr, 0);
            for (const auto& one : goodbyes)
                static_cast<void>(one->wait(0));
        } catch (...) { // the other has ended otherwise
            end_all();
        }
    }

    [[nodiscard]] Link& usable(int from, int to) {
        const auto found = links_.find({from, to});
        if (found == links_.end())
            throw Error("nccl: rank " + std::to_string(rank()) + " has no link with rank " +
                        std::to_string(from == rank() ? to : from) + "; name it where the links are made");
        with_ = {from == rank() ? to : from};
        if (found->second.comm.get() == nullptr)
            throw distributed::Aborted("rank " + std::to_string(rank()) + ": NCCL has been ended");
        return found->second;
    }

    template <class Call>
    void begin(Link& link, const char* what, const Call& call) {
        check(call(link.stream.state().at_once()), what);
        settle(link.comm.get(), what);
    }

    /// Receives the messages of a link up to this one. A receive begins only after the other side
    /// has begun to send, so that a device never waits for a rank that the host knows nothing of.
    void take(Link& link, const AwaitedMessage& last) {
        if (broken_)
            throw distributed::Aborted("rank " + std::to_string(rank()) + ": NCCL has been ended");
        try {
            while (!last.begun) {
                const std::shared_ptr<AwaitedMessage> next = link.asked.front();
                take_one(link, *next);
                link.asked.pop_front();
            }
        } catch (...) {
            broken_ = true;
            end_all();
            throw;
        }
    }

    void take_one(Link& link, AwaitedMessage& asked) {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, asked.told->wait(sizeof bytes), sizeof bytes);
        static_cast<void>(usable(link.from, rank()));
        if (bytes != asked.label.bytes)
            throw distributed::Aborted(distributed::other_text(
                link.from, {asked.label.traffic, asked.label.number, bytes}, rank(), asked.label));
        asked.to = unused(bytes);
        if (bytes > 0) {
            link.stream.wait(stream_.record()); // its previous user has read it
            begin(link, "receiving", [&](cudaStream_t on) {
                return ncclRecv(asked.to->data(), bytes, ncclUint8, 0, link.comm.get(), on);
            });
            link.coming = {asked.label, link.stream.record()};
            // This also holds for a message that is never awaited: memory returns to its pool in
            // this stream's order.
            stream_.wait(link.coming->done);
        }
        asked.told.reset();
        asked.begun = true;
    }

    /// A rank that ends after it began to send takes the send with it, since its device is gone. A
    /// rank that ends normally has waited for this one before.
    void look_for(int from, const Label& awaited) {
        try {
            ranks_.must_go_on(awaited.traffic, from, awaited.number);
        } catch (...) {
            broken_ = true;
            end_all();
            throw;
        }
    }

    [[nodiscard]] bool gone(int peer) noexcept {
        try {
            ranks_.progress();
            ranks_.must_go_on(Traffic::agreement, peer, 0);
            return false;
        } catch (...) {
            return true;
        }
    }

    /// Messages that have been sent may be overwritten.
    void let_go() {
        if (stream_.state().capturing) // during a capture, events must not be queried
            return;
        for (auto& [pair, link] : links_)
            while (!link.leaving.empty() && link.stream.reached(link.leaving.front().second))
                link.leaving.pop_front();
    }

    void end_all() noexcept override {
        for (auto& [pair, link] : links_)
            link.comm.end();
    }

    /// Runs while the host waits for a stream.
    void look_after(Clock::duration waited) {
        for (auto& [pair, link] : links_)
            if (link.comm.get() != nullptr)
                static_cast<void>(has_settled(link.comm.get(), "an exchange"));
        ranks_.progress();
        for (auto& [pair, link] : links_)
            if (link.coming && !link.stream.reached(link.coming->done))
                look_for(link.from, link.coming->label);
        refuse_delay(waited, "an exchange");
    }

    std::map<std::pair<int, int>, Link> links_; ///< by who sends and who receives
    bool broken_ = false;
};

} // namespace

std::unique_ptr<Peers> make_nccl_links(Peers& ranks, const CudaStream& stream,
                                       std::vector<Traffic> on_device, std::vector<int> with,
                                       const NcclOptions& options) {
    return std::make_unique<NcclLinks>(ranks, stream, std::move(on_device), std::move(with), options);
}

} // namespace truestep::gpu
