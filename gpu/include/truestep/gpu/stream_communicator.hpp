#pragma once

// How ranks of one device exchange data: each has a stream and copies its share out of its peers'
// memory. The host only passes on where data is and what has to come before it; it never waits for
// the device. One source serves the device's streams and their host form.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/gpu/algorithms/add.hpp>

namespace truestep::gpu {

using distributed::Communicator;
using distributed::Traffic;

/// Whether the traffic is in the device's memory; everything else is small and the host's.
inline bool is_of_device(Traffic traffic) {
    return traffic == Traffic::payload || traffic == Traffic::moment || traffic == Traffic::mask;
}

template <class Stream>
class StreamCommunicator final : public Communicator {
  public:
    /// `ranks` are threads of one process, each of which makes its communicator; `ranks` has to
    /// outlive it. `compute` is the stream of the rank's backend. Masks travel on a second stream.
    StreamCommunicator(Communicator& ranks, Stream compute)
        : ranks_(ranks), compute_(compute), beside_(compute.beside()) {
        struct Made {
            const std::shared_ptr<Board>* board;
        };
        const auto mine = std::make_shared<Board>(static_cast<std::size_t>(ranks.size()));
        board_ = *distributed::gather_records(ranks, Made{&mine}).front().board;
        meet(); // all have rank 0's
    }

    [[nodiscard]] int rank() const override { return ranks_.rank(); }
    [[nodiscard]] int size() const override { return ranks_.size(); }
    [[nodiscard]] std::string name() const override { return "in_process"; }
    [[nodiscard]] bool host_can_read(Traffic traffic) const override { return !is_of_device(traffic); }
    void progress() override { ranks_.progress(); }
    void abort(const std::string& reason) noexcept override { ranks_.abort(reason); }

    std::unique_ptr<distributed::Exchange> start_all_to_all(Traffic traffic, const void* send,
                                                            Sizes send_sizes, void* receive,
                                                            Sizes receive_sizes) override {
        if (!is_of_device(traffic))
            return ranks_.start_all_to_all(traffic, send, send_sizes, receive, receive_sizes);
        const std::vector<std::size_t> offsets = gather_offsets(send_sizes);
        return exchange(traffic, send, [&](Stream& stream, const std::vector<PeerData>& peers) {
            auto* to = static_cast<std::byte*>(receive);
            for (std::size_t peer = 0; peer < peers.size(); ++peer) {
                stream.copy(to, peers[peer].send + offsets[peer], receive_sizes[peer]);
                to += receive_sizes[peer];
            }
        });
    }

    /// The sizes tell where a peer has this rank's part, so no message is needed.
    std::unique_ptr<distributed::Exchange> start_all_to_owners(Traffic traffic, const void* send,
                                                               Sizes sizes, distributed::Piece piece,
                                                               void* receive) override {
        if (!is_of_device(traffic))
            return ranks_.start_all_to_owners(traffic, send, sizes, piece, receive);
        const auto me = static_cast<std::size_t>(rank());
        const std::size_t at = before(sizes, me) + piece.begin_in(sizes[me]);
        const std::size_t size = piece.size_in(sizes[me]);
        return exchange(traffic, send, [&](Stream& stream, const std::vector<PeerData>& peers) {
            auto* to = static_cast<std::byte*>(receive);
            for (const PeerData& peer : peers) {
                stream.copy(to, peer.send + at, size);
                to += size;
            }
        });
    }
    [[nodiscard]] bool sends_pieces() const override { return true; }

    /// Each rank reads in its peer's list where its own stretch begins; peers leave only after all
    /// have read.
    std::unique_ptr<distributed::Exchange> start_stretches(Traffic traffic, const void* send, Stretches to,
                                                           void* receive, Stretches from) override {
        if (!is_of_device(traffic))
            return ranks_.start_stretches(traffic, send, to, receive, from);
        const auto me = static_cast<std::size_t>(rank());
        const auto read = [&](Stream& stream, const std::vector<PeerData>& peers) {
            for (std::size_t peer = 0; peer < peers.size(); ++peer)
                if (from[peer].size > 0)
                    stream.copy(static_cast<std::byte*>(receive) + from[peer].begin,
                                peers[peer].send + peers[peer].to[me].begin, from[peer].size);
        };
        return exchange(traffic, send, read, to);
    }

    std::unique_ptr<distributed::Exchange> start_all_gather(Traffic traffic, const void* send,
                                                            void* receive, Sizes sizes) override {
        if (!is_of_device(traffic))
            return ranks_.start_all_gather(traffic, send, receive, sizes);
        return exchange(traffic, send, [&](Stream& stream, const std::vector<PeerData>& peers) {
            auto* to = static_cast<std::byte*>(receive);
            for (std::size_t peer = 0; peer < peers.size(); ++peer) {
                if (to != peers[peer].send)
                    stream.copy(to, peers[peer].send, sizes[peer]);
                to += sizes[peer];
            }
        });
    }

    /// Each rank begins with its own part, so that callers cannot come to rely on the order.
    std::unique_ptr<distributed::Exchange> start_reduce_scatter(Traffic traffic, const float* send,
                                                                float* receive, Sizes sizes) override {
        if (!is_of_device(traffic))
            return ranks_.start_reduce_scatter(traffic, send, receive, sizes);
        const auto me = static_cast<std::size_t>(rank());
        const std::size_t at = before(sizes, me);
        return exchange(traffic, send, [&](Stream& stream, const std::vector<PeerData>& peers) {
            const auto count = static_cast<Index>(sizes[me] / sizeof(float));
            stream.copy(receive, peers[me].send + at, sizes[me]);
            for (std::size_t turn = 1; turn < peers.size(); ++turn) {
                const PeerData& peer = peers[(me + turn) % peers.size()];
                if (count > 0)
                    stream.template run<AddTo>(
                        (count + tile - 1) / tile,
                        {reinterpret_cast<const float*>(peer.send + at), count, receive});
            }
        });
    }

  private:
    using Event = typename Stream::Event;

    /// Where a peer's data is, and what has to come before it is read.
    struct PeerData {
        const std::byte* send = nullptr;
        Stretches to{}; ///< where only stretches of it go to each rank
        Event event{};
    };

    /// Places where ranks post to each other. A board lives as long as any rank, and a place in it
    /// is rewritten only when all have met twice.
    using Board = std::vector<std::array<PeerData, 2>>;

    class Joined final : public distributed::Exchange {
      public:
        Joined(Stream stream, std::vector<PeerData> all)
            : stream_(std::move(stream)), all_(std::move(all)) {}
        Joined(const Joined&) = delete;
        Joined& operator=(const Joined&) = delete;
        /// Dropping it frees memory that is still to be read on this stream.
        ~Joined() override {
            try {
                wait();
            } catch (...) { // NOLINT(bugprone-empty-catch): the device's error is reported elsewhere
            }
        }
        void wait() override {
            for (const PeerData& peer : all_)
                stream_.wait(peer.event);
            all_.clear();
        }

      private:
        Stream stream_;
        std::vector<PeerData> all_;
    };

    /// Ranks post what they send and from when on it may be read, read, and post when they are
    /// done.
    template <class Read>
    std::unique_ptr<distributed::Exchange> exchange(Traffic traffic, const void* send, const Read& read,
                                                    Stretches to = {}) {
        Stream& stream = traffic == Traffic::mask ? beside_ : compute_;
        const std::vector<PeerData> peers =
            meet({static_cast<const std::byte*>(send), to, compute_.record()});
        for (const PeerData& peer : peers)
            stream.wait(peer.event);
        read(stream, peers);
        // This covers the peers' reads, too: what they have read may be overwritten then.
        return std::make_unique<Joined>(compute_, meet({nullptr, {}, stream.record()}));
    }

    void meet() { static_cast<void>(distributed::gather_records(ranks_, char{})); }

    std::vector<PeerData> meet(PeerData mine) {
        const std::size_t turn = meetings_++ % 2;
        (*board_)[static_cast<std::size_t>(rank())][turn] = std::move(mine);
        meet();
        std::vector<PeerData> peers;
        for (const auto& places : *board_)
            peers.push_back(places[turn]);
        return peers;
    }

    static std::size_t before(Sizes sizes, std::size_t rank) {
        const Sizes some = sizes.first(rank);
        return std::reduce(some.begin(), some.end());
    }

    /// The offset of this rank's part in each rank's buffer, by the sizes that they send.
    std::vector<std::size_t> gather_offsets(Sizes sizes) {
        std::size_t before = 0;
        std::vector<std::size_t> mine;
        for (const std::size_t size : sizes) {
            mine.push_back(before);
            before += size;
        }
        const std::vector<std::size_t> one(sizes.size(), sizeof(std::size_t));
        std::vector<std::size_t> offsets(sizes.size());
        ranks_.start_all_to_all(Traffic::agreement, mine.data(), one, offsets.data(), one)->wait();
        return offsets;
    }

    Communicator& ranks_;
    Stream compute_;
    Stream beside_;
    std::shared_ptr<Board> board_;
    std::uint64_t meetings_ = 0;
};

} // namespace truestep::gpu
