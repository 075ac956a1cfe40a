// Counts the bytes of messages between peers, and delays or reorders them for tests.
#include <truestep/distributed/counting_peers.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace truestep::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::byte nonsense{0xA5};

std::size_t place_of(Traffic traffic) {
    return static_cast<std::size_t>(traffic);
}

CountingPeers::Sent operator+(CountingPeers::Sent one, const CountingPeers::Sent& other) {
    one.messages += other.messages;
    one.bytes += other.bytes;
    return one;
}

} // namespace

class CountingPeers::Disturbed final : public IncomingMessage {
  public:
    Disturbed(CountingPeers& peers, std::unique_ptr<IncomingMessage> inner, std::size_t bytes,
              bool holds_back, std::chrono::milliseconds delay)
        : peers_(peers), inner_(std::move(inner)), earliest_(Clock::now() + delay),
          held_(holds_back ? bytes : 0, nonsense), holds_back_(holds_back) {}
    Disturbed(const Disturbed&) = delete;
    Disturbed& operator=(const Disturbed&) = delete;
    ~Disturbed() override { peers_.bury(std::move(held_)); }

    /// Other ranks may wait for messages that are late here, while this rank waits for them.
    const std::byte* wait(std::size_t bytes) override {
        peers_.send_all();
        const std::byte* const data = inner_->wait(bytes);
        std::this_thread::sleep_until(earliest_);
        if (!holds_back_)
            return data;
        if (bytes > there_)
            std::memcpy(held_.data() + there_, data + there_, bytes - there_);
        there_ = std::max(there_, bytes);
        return held_.data();
    }

  private:
    CountingPeers& peers_;
    std::unique_ptr<IncomingMessage> inner_;
    Clock::time_point earliest_;
    std::vector<std::byte> held_;
    std::size_t there_ = 0; ///< of held_, from its beginning
    bool holds_back_;
};

CountingPeers::CountingPeers(Peers& inner, PeerDisturbance disturbance)
    : inner_(inner), disturbance_(std::move(disturbance)), sent_(static_cast<std::size_t>(inner.size())) {}

CountingPeers::~CountingPeers() {
    try {
        send_all();
    } catch (const std::exception& error) {
        inner_.leave(error.what());
    }
}

CountingPeers::Sent CountingPeers::sent(Traffic traffic, int peer) const {
    return sent_.at(static_cast<std::size_t>(peer))[place_of(traffic)];
}

CountingPeers::Sent CountingPeers::sent(Traffic traffic) const {
    Sent sum;
    for (const auto& peer : sent_)
        sum = sum + peer[place_of(traffic)];
    return sum;
}

CountingPeers::Sent CountingPeers::sent_to(int peer) const {
    Sent sum;
    for (const Sent& kind : sent_.at(static_cast<std::size_t>(peer)))
        sum = sum + kind;
    return sum;
}

Bytes CountingPeers::bytes() const {
    Bytes sums{};
    for (const auto& peer : sent_)
        for (std::size_t kind = 0; kind < traffic_kinds; ++kind)
            sums[kind] += peer[kind].bytes;
    return sums;
}

void CountingPeers::reset() {
    sent_.assign(sent_.size(), {});
}

void CountingPeers::send(Traffic traffic, int peer, std::uint64_t number,
                         std::shared_ptr<const void> message, std::size_t bytes) {
    one_more_call();
    const unsigned calls = disturbance_.late_start[place_of(traffic)];
    if (calls > 0) {
        late_.push_back({traffic, peer, number, std::move(message), bytes, calls});
    } else {
        send_all_to(peer); // messages to one peer keep their order
        inner_.send(traffic, peer, number, std::move(message), bytes);
    }
    Sent& sent = sent_.at(static_cast<std::size_t>(peer))[place_of(traffic)];
    sent = sent + Sent{.messages = 1, .bytes = bytes};
}

std::unique_ptr<IncomingMessage> CountingPeers::receive(Traffic traffic, int peer, std::uint64_t number,
                                                        std::size_t bytes) {
    one_more_call();
    auto inner = inner_.receive(traffic, peer, number, bytes);
    const auto from = static_cast<std::size_t>(peer);
    auto delay = disturbance_.delay[place_of(traffic)];
    if (from < disturbance_.delay_from.size())
        delay += disturbance_.delay_from[from];
    const bool holds_back = disturbance_.hold_back[place_of(traffic)] && host_can_read(traffic);
    return std::make_unique<Disturbed>(*this, std::move(inner), bytes, holds_back, delay);
}

void CountingPeers::progress() {
    send_all();
    inner_.progress();
}

void CountingPeers::leave(const std::string& reason) noexcept {
    try {
        send_all();
    } catch (const std::exception&) { // only the reason matters now
        late_.clear();
    }
    inner_.leave(reason);
}

void CountingPeers::one_more_call() {
    for (Late& late : late_)
        --late.calls_left;
    for (std::size_t i = 0; i < late_.size();)
        if (late_[i].calls_left == 0) {
            send_all_to(late_[i].peer); // at least this one
            i = 0;
        } else {
            ++i;
        }
}

void CountingPeers::send_all_to(int peer) {
    for (auto late = late_.begin(); late != late_.end();)
        if (late->peer == peer) {
            Late now = std::move(*late);
            late = late_.erase(late);
            inner_.send(now.traffic, peer, now.number, std::move(now.message), now.bytes);
        } else {
            ++late;
        }
}

void CountingPeers::send_all() {
    while (!late_.empty())
        send_all_to(late_.back().peer);
}

/// Keeps a few old messages filled with nonsense: a reader of a freed place gets nonsense, and soon
/// freed memory, which a sanitizer reports.
void CountingPeers::bury(std::vector<std::byte> data) {
    constexpr std::size_t most = 16;
    if (data.empty())
        return;
    std::ranges::fill(data, nonsense);
    gone_.push_back(std::move(data));
    if (gone_.size() > most)
        gone_.pop_front();
}

} // namespace truestep::distributed
