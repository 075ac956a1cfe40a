// Runs exchanges as messages between peers, for any subset of their ranks.
#include <truestep/distributed/peer_communicator.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include <truestep/problem/error.hpp>

namespace truestep::distributed {

namespace {

/// The places of parts of these sizes, one after the other.
std::vector<Stretch> one_after_another(Communicator::Sizes sizes) {
    std::vector<Stretch> all;
    std::size_t begin = 0;
    for (const std::size_t size : sizes) {
        all.push_back({begin, size});
        begin += size;
    }
    return all;
}

/// The bytes of all parts together.
std::size_t all_bytes(const std::vector<Stretch>& parts) {
    return parts.back().begin + parts.back().size;
}

class MessageExchange final : public Exchange {
  public:
    explicit MessageExchange(void* receive) : receive_(static_cast<std::byte*>(receive)) {}

    void await(std::unique_ptr<IncomingMessage> incoming, const Stretch& place) {
        awaited_.push_back({std::move(incoming), place});
    }
    void wait() override {
        for (const AwaitedMessage& one : std::exchange(awaited_, {}))
            std::memcpy(receive_ + one.place.begin, one.incoming->wait(one.place.size), one.place.size);
    }

  private:
    struct AwaitedMessage {
        std::unique_ptr<IncomingMessage> incoming;
        Stretch place;
    };
    std::byte* receive_;
    std::vector<AwaitedMessage> awaited_;
};

/// Adds all ranks' parts for this rank, as soon as they arrive.
class SummedExchange final : public Exchange {
  public:
    SummedExchange(float* sum, std::size_t values, std::size_t ranks)
        : sum_(sum), values_(values), parts_(values * ranks) {}

    [[nodiscard]] float* parts() { return parts_.data(); }
    void await(std::unique_ptr<Exchange> exchange) { exchange_ = std::move(exchange); }
    void wait() override {
        if (!exchange_)
            return;
        exchange_->wait();
        exchange_.reset();
        std::copy_n(parts_.begin(), values_, sum_);
        for (std::size_t begin = values_; begin < parts_.size(); begin += values_)
            for (std::size_t i = 0; i < values_; ++i)
                sum_[i] += parts_[begin + i];
    }

  private:
    float* sum_;
    std::size_t values_;
    std::vector<float> parts_;
    std::unique_ptr<Exchange> exchange_;
};

int own_place(int rank, const std::vector<int>& ranks) {
    const auto found = std::ranges::find(ranks, rank);
    if (found == ranks.end() || std::set<int>(ranks.begin(), ranks.end()).size() != ranks.size())
        throw std::invalid_argument("rank " + std::to_string(rank) +
                                    " is not among the ranks of its communicator, or one is there twice");
    return static_cast<int>(found - ranks.begin());
}

} // namespace

PeerCommunicator::PeerCommunicator(Peers& peers, std::vector<int> ranks)
    : peers_(peers), ranks_(std::move(ranks)), rank_(own_place(peers.rank(), ranks_)) {
    for (std::size_t kind = 0; kind < traffic_kinds; ++kind)
        if (!peers_.host_can_read(static_cast<Traffic>(kind)))
            throw Error("the peers " + peers_.name() +
                        " keep messages where the host cannot read them; a communicator among some of them "
                        "needs peers of the host");
}

std::unique_ptr<Exchange> PeerCommunicator::start(Traffic traffic, const void* send, std::size_t bytes,
                                                  void* receive, const Places& places) {
    const auto* const begin = static_cast<const std::byte*>(send);
    auto exchange = std::make_unique<MessageExchange>(receive);
    const auto own = static_cast<std::size_t>(rank_);
    const std::uint64_t number = exchanges_++;
    // Ask before anything is sent: two ranks that send to each other need it (peers.hpp).
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        if (const Stretch& from = places.from[rank]; rank != own && from.size > 0)
            exchange->await(peers_.receive(traffic, ranks_[rank], number, from.size), from);
    // A gather's own part may be in its place already.
    auto* const home = static_cast<std::byte*>(receive) + places.from[own].begin;
    if (const Stretch& kept = places.to[own]; kept.size > 0 && home != begin + kept.begin)
        std::memmove(home, begin + kept.begin, kept.size);
    if (ranks_.size() == 1)
        return exchange;
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes);
    if (bytes > 0)
        std::memcpy(copy->data(), begin, bytes);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        if (const Stretch& to = places.to[rank]; rank != own && to.size > 0)
            peers_.send(traffic, ranks_[rank], number,
                        std::shared_ptr<const void>(copy, copy->data() + to.begin), to.size);
    return exchange;
}

std::unique_ptr<Exchange> PeerCommunicator::start_all_to_all(Traffic traffic, const void* send,
                                                             Sizes send_sizes, void* receive,
                                                             Sizes receive_sizes) {
    const Places places{one_after_another(send_sizes), one_after_another(receive_sizes)};
    return start(traffic, send, all_bytes(places.to), receive, places);
}

std::unique_ptr<Exchange> PeerCommunicator::start_all_gather(Traffic traffic, const void* send,
                                                             void* receive, Sizes sizes) {
    const std::size_t own = sizes[static_cast<std::size_t>(rank_)];
    const Places places{std::vector<Stretch>(sizes.size(), {0, own}), one_after_another(sizes)};
    return start(traffic, send, own, receive, places);
}

std::unique_ptr<Exchange> PeerCommunicator::start_reduce_scatter(Traffic traffic, const float* send,
                                                                 float* receive, Sizes sizes) {
    const std::size_t own = sizes[static_cast<std::size_t>(rank_)];
    auto exchange = std::make_unique<SummedExchange>(receive, own / sizeof(float), sizes.size());
    exchange->await(start_all_to_all(traffic, send, sizes, exchange->parts(),
                                     std::vector<std::size_t>(sizes.size(), own)));
    return exchange;
}

} // namespace truestep::distributed
