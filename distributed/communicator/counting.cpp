// Counts the bytes of a communicator's exchanges, and delays or reorders them for tests.
#include <truestep/distributed/counting.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "stretches.hpp"
#include <truestep/distributed/missing.hpp>

namespace truestep::distributed {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t total(Communicator::Sizes sizes) {
    return std::reduce(sizes.begin(), sizes.end());
}

std::vector<std::size_t> copy_of(Communicator::Sizes sizes) {
    return {sizes.begin(), sizes.end()};
}

std::size_t index(Traffic traffic) {
    return static_cast<std::size_t>(traffic);
}

std::size_t end_of(const std::vector<Stretch>& parts) {
    std::size_t end = 0;
    for (const Stretch& part : parts)
        end = std::max(end, part.begin + part.size);
    return end;
}

/// The bytes and messages that one exchange sends to other ranks.
struct Sent {
    std::size_t bytes = 0;
    std::uint64_t messages = 0;

    Sent(Communicator::Stretches to, int me) {
        for (std::size_t rank = 0; rank < to.size(); ++rank)
            add(rank != static_cast<std::size_t>(me) ? to[rank].size : 0);
    }
    Sent(Communicator::Sizes sizes, Piece piece, int me) {
        for (std::size_t rank = 0; rank < sizes.size(); ++rank)
            add(rank != static_cast<std::size_t>(me) ? piece.size_in(sizes[rank]) : 0);
    }

  private:
    void add(std::size_t size) {
        bytes += size;
        messages += size > 0 ? 1 : 0;
    }
};

} // namespace

class CountingCommunicator::Disturbed final : public Exchange {
  public:
    Disturbed(CountingCommunicator& communicator, Traffic traffic, Place place, Start inner_start)
        : communicator_(communicator), traffic_(traffic), place_(std::move(place)),
          inner_start_(std::move(inner_start)),
          earliest_(Clock::now() + communicator.disturbance_.delay[index(traffic)]),
          calls_left_(communicator.disturbance_.late_start[index(traffic)]) {
        if (communicator.disturbance_.hold_back[index(traffic)] && communicator.host_can_read(traffic)) {
            constexpr std::byte nonsense{0xA5};
            held_.assign(place_.size, nonsense);
            deliver();
        }
        if (calls_left_ == 0)
            start_now();
        communicator.under_way_.push_back(this);
    }
    Disturbed(const Disturbed&) = delete;
    Disturbed& operator=(const Disturbed&) = delete;

    /// The inner exchange handles being dropped; if it has not been started, there is none.
    ~Disturbed() override {
        std::erase(communicator_.under_way_, this);
        if (!inner_ && !complete_)
            communicator_.abort(exchange_text(traffic_) + " was never waited for");
    }

    void wait() override {
        if (waited_)
            return;
        start_now();
        communicator_.one_more_call();
        if (communicator_.disturbance_.newest_first)
            complete_all_later();
        complete();
        std::this_thread::sleep_until(earliest_);
        if (!held_.empty())
            deliver();
        damage();
        waited_ = true;
        std::erase(communicator_.under_way_, this);
    }

    void one_more_call() {
        if (calls_left_ > 0 && --calls_left_ == 0)
            start_now();
    }

  private:
    void start_now() {
        calls_left_ = 0;
        if (!inner_ && !complete_)
            inner_ = inner_start_(held_.empty() ? place_.begin : held_.data());
    }

    void complete() {
        if (complete_)
            return;
        start_now();
        inner_->wait();
        inner_.reset();
        complete_ = true;
    }

    void complete_all_later() {
        auto& all = communicator_.under_way_;
        for (auto it = all.rbegin(); it != all.rend() && *it != this; ++it)
            (*it)->complete();
    }

    /// Copies the held data to its destination: nonsense at first, the real data in the end.
    void deliver() const {
        for (const auto& [begin, size] : place_.received)
            if (size > 0)
                std::memcpy(place_.begin + begin, held_.data() + begin, size);
    }

    void damage() const {
        const auto& damaged = communicator_.damaged_;
        if (!damaged || damaged->first != traffic_ || !communicator_.host_can_read(traffic_))
            return;
        std::size_t bytes = 0;
        for (const Stretch& part : place_.received)
            bytes += part.size;
        const auto bit = static_cast<unsigned>(damaged->second % 9);
        std::size_t at = bytes > 0 ? damaged->second / 9 % bytes : 0;
        for (const auto& [begin, size] : place_.received) {
            if (at < size) {
                place_.begin[begin + at] ^= bit < 8 ? std::byte{1} << bit : std::byte{255};
                return communicator_.note_fault();
            }
            at -= size;
        }
    }

    CountingCommunicator& communicator_;
    Traffic traffic_;
    Place place_;
    Start inner_start_;
    Clock::time_point earliest_;
    unsigned calls_left_;
    std::vector<std::byte> held_;
    std::unique_ptr<Exchange> inner_;
    bool complete_ = false;
    bool waited_ = false;
};

CountingCommunicator::CountingCommunicator(Communicator& inner, const Disturbance& disturbance)
    : inner_(inner) {
    disturb(disturbance);
}

void CountingCommunicator::disturb(Disturbance disturbance) {
    disturbance_ = disturbance;
    const auto any = [](const auto& values) {
        using Value = std::decay_t<decltype(values[0])>;
        return std::ranges::any_of(values, [](const Value& value) { return value != Value{}; });
    };
    disturbs_ = any(disturbance.delay) || any(disturbance.late_start) || any(disturbance.hold_back) ||
                disturbance.newest_first || damaged_.has_value();
}

void CountingCommunicator::note_fault() const {
    if (fault_came_ != nullptr)
        *fault_came_ = true;
}

CountingCommunicator::~CountingCommunicator() = default;

void CountingCommunicator::reset() {
    bytes_ = {};
    exchanges_ = {};
    messages_ = {};
}

void CountingCommunicator::count(Traffic traffic, std::size_t sent, std::uint64_t messages) {
    if (exchanges_left_ && *exchanges_left_ == 0) {
        note_fault();
        throw LinkLost("its link was cut before " + exchange_text(traffic));
    }
    if (exchanges_left_)
        --*exchanges_left_;
    bytes_[index(traffic)] += sent;
    ++exchanges_[index(traffic)];
    messages_[index(traffic)] += messages;
}

CountingCommunicator::Place CountingCommunicator::whole_place(void* receive, std::size_t size) {
    return {static_cast<std::byte*>(receive), size, {{0, size}}};
}

void CountingCommunicator::one_more_call() {
    for (Disturbed* exchange : under_way_)
        exchange->one_more_call();
}

std::unique_ptr<Exchange> CountingCommunicator::start(Traffic traffic, const Place& place,
                                                      Start inner_start) {
    one_more_call();
    return std::make_unique<Disturbed>(*this, traffic, place, std::move(inner_start));
}

// An exchange that starts late also reads its sizes late, when the caller's may be gone.

std::unique_ptr<Exchange> CountingCommunicator::start_all_to_all(Traffic traffic, const void* send,
                                                                 Sizes send_sizes, void* receive,
                                                                 Sizes receive_sizes) {
    const Sent counted(send_sizes, {}, rank());
    count(traffic, counted.bytes, counted.messages);
    if (!disturbs_)
        return inner_.start_all_to_all(traffic, send, send_sizes, receive, receive_sizes);
    return start(
        traffic, whole_place(receive, total(receive_sizes)),
        [this, traffic, send, sent = copy_of(send_sizes), received = copy_of(receive_sizes)](void* place) {
            return inner_.start_all_to_all(traffic, send, sent, place, received);
        });
}

std::unique_ptr<Exchange> CountingCommunicator::start_all_to_owners(Traffic traffic, const void* send,
                                                                    Sizes sizes, Piece piece,
                                                                    void* receive) {
    const auto me = static_cast<std::size_t>(rank());
    const Sent counted(sizes, piece, rank());
    count(traffic, counted.bytes, counted.messages);
    if (!disturbs_)
        return inner_.start_all_to_owners(traffic, send, sizes, piece, receive);
    return start(traffic, whole_place(receive, piece.size_in(sizes[me]) * sizes.size()),
                 [this, traffic, send, all = copy_of(sizes), piece](void* place) {
                     return inner_.start_all_to_owners(traffic, send, all, piece, place);
                 });
}

std::unique_ptr<Exchange> CountingCommunicator::start_stretches(Traffic traffic, const void* send,
                                                                Stretches to, void* receive,
                                                                Stretches from) {
    const Sent counted(to, rank());
    count(traffic, counted.bytes, counted.messages);
    if (!disturbs_)
        return inner_.start_stretches(traffic, send, to, receive, from);
    std::vector<Stretch> awaited(from.begin(), from.end());
    return start(traffic, {static_cast<std::byte*>(receive), end_of(awaited), awaited},
                 [this, traffic, send, sent = std::vector<Stretch>(to.begin(), to.end()), awaited](
                     void* place) { return inner_.start_stretches(traffic, send, sent, place, awaited); });
}

std::unique_ptr<Exchange> CountingCommunicator::start_all_gather(Traffic traffic, const void* send,
                                                                 void* receive, Sizes sizes) {
    const auto me = static_cast<std::size_t>(rank());
    count(traffic, sizes[me] * (sizes.size() - 1), sizes[me] > 0 ? sizes.size() - 1 : 0);
    if (!disturbs_)
        return inner_.start_all_gather(traffic, send, receive, sizes);
    Place place{static_cast<std::byte*>(receive), total(sizes), stretches_of(sizes)};
    if (send == place.begin + place.received[me].begin)
        place.received[me].size = 0;
    return start(traffic, place, [this, traffic, send, all = copy_of(sizes)](void* held) {
        return inner_.start_all_gather(traffic, send, held, all);
    });
}

std::unique_ptr<Exchange> CountingCommunicator::start_reduce_scatter(Traffic traffic, const float* send,
                                                                     float* receive, Sizes sizes) {
    const std::size_t mine = sizes[static_cast<std::size_t>(rank())];
    const Sent counted(sizes, {}, rank());
    count(traffic, counted.bytes, counted.messages);
    if (!disturbs_)
        return inner_.start_reduce_scatter(traffic, send, receive, sizes);
    return start(traffic, whole_place(receive, mine),
                 [this, traffic, send, all = copy_of(sizes)](void* place) {
                     return inner_.start_reduce_scatter(traffic, send, static_cast<float*>(place), all);
                 });
}

} // namespace truestep::distributed
