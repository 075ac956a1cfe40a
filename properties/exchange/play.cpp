// Plays the exchanges and messages of a case on the ranks of a group.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/counting_peers.hpp>
#include <truestep/distributed/levels.hpp>
#include <truestep/distributed/peer_communicator.hpp>
#include <truestep/gate/record.hpp>

#include "exchange.hpp"

namespace truestep::properties::exchange {

namespace {

using distributed::Communicator;
using distributed::CountingCommunicator;
using distributed::Peers;
using namespace std::chrono_literals;

/// An exchange that has been started, with its memory.
struct UnderWay {
    std::size_t number = 0;
    Buffer sends{};
    Buffer receives{};
    std::unique_ptr<distributed::Exchange> exchange{};

    void relay() const {
        if (exchange)
            exchange->relay();
    }
};

UnderWay started(const Case& run, Communicator& ranks, std::size_t number) {
    const auto rank = index(ranks.rank());
    const Plan plan = plan_of(run, number);
    UnderWay one{number, buffer_of(run, plan, number, rank), Buffer(plan.received_by(rank), untouched)};
    const auto sizes_of = [](const std::vector<Stretch>& parts) {
        std::vector<std::size_t> sizes;
        for (const Stretch& part : parts)
            sizes.push_back(part.size);
        return sizes;
    };
    std::vector<std::size_t> to = sizes_of(plan.to[rank]);
    std::vector<std::size_t> from = sizes_of(plan.place[rank]);
    std::vector<std::size_t> owned = plan.sizes;
    std::vector<Stretch> stretches_to = plan.to[rank];
    std::vector<Stretch> stretches_from = plan.place[rank];
    std::uint8_t* const send = one.sends.data();
    std::uint8_t* const receive = one.receives.data();
    switch (plan.operation) {
    case Operation::all_to_all:
        one.exchange = ranks.start_all_to_all(plan.traffic, send, to, receive, from);
        break;
    case Operation::to_owners:
        one.exchange = ranks.start_all_to_owners(plan.traffic, send, owned, plan.piece, receive);
        break;
    case Operation::stretches:
        one.exchange = ranks.start_stretches(plan.traffic, send, stretches_to, receive, stretches_from);
        break;
    case Operation::all_gather:
        one.exchange = ranks.start_all_gather(plan.traffic, send, receive, from);
        break;
    case Operation::gather_in_place: {
        std::uint8_t* const own = receive + plan.place[rank][rank].begin;
        std::copy(one.sends.begin(), one.sends.end(), own);
        one.exchange = ranks.start_all_gather(plan.traffic, own, receive, from);
        break;
    }
    case Operation::reduce_scatter:
        one.exchange = ranks.start_reduce_scatter(plan.traffic, reinterpret_cast<const float*>(send),
                                                  reinterpret_cast<float*>(receive), to);
        break;
    case Operation::records: {
        Record mine{};
        std::copy(one.sends.begin(), one.sends.end(), mine.begin());
        const auto all = distributed::gather_records(ranks, mine);
        std::memcpy(receive, all.data(), one.receives.size());
        break;
    }
    }
    // The lists belong to the caller again.
    for (std::vector<std::size_t>* const sizes : {&to, &from, &owned})
        std::ranges::fill(*sizes, std::size_t{1} << 40U);
    for (std::vector<Stretch>* const stretches : {&stretches_to, &stretches_from})
        std::ranges::fill(*stretches, Stretch{std::size_t{1} << 40U, 1});
    return one;
}

/// Some exchanges of a case, of which several are under way at once.
class Exchanges {
  public:
    /// `free_order`: ranks may wait in different orders.
    Exchanges(const Case& run, Communicator& ranks, Seen& seen, bool free_order)
        : run_(run), ranks_(ranks), seen_(seen), free_order_(free_order) {
        seen_.received.resize(static_cast<std::size_t>(run.exchanges));
    }

    void play(std::size_t begin, std::size_t end) {
        for (std::size_t number = begin; number < end; ++number) {
            under_way_.push_back(started(run_, ranks_, number));
            if (drawn(0) % 4 == 0)
                under_way_[drawn(1) % under_way_.size()].relay();
            if (drawn(2) % 4 == 0)
                ranks_.progress();
            while (under_way_.size() >= static_cast<std::size_t>(run_.at_once))
                take_one();
        }
    }
    void take_all() {
        while (!under_way_.empty())
            take_one();
    }

  private:
    /// A random number that is the same on all ranks, unless they wait in different orders.
    [[nodiscard]] std::uint64_t drawn(std::uint64_t what) const {
        return run_.random(For::waits, {turn_, what, free_order_ ? index(ranks_.rank()) : 0});
    }

    void take_one() {
        const auto at = under_way_.begin() + static_cast<std::ptrdiff_t>(drawn(3) % under_way_.size());
        ++turn_;
        if (at->exchange)
            at->exchange->wait();
        std::ranges::fill(at->sends, std::uint8_t{0xDD}); // it belongs to the caller again
        seen_.received[at->number] = at->receives;
        under_way_.erase(at);
    }

    const Case& run_;
    Communicator& ranks_;
    Seen& seen_;
    bool free_order_;
    std::uint64_t turn_ = 0;
    std::vector<UnderWay> under_way_;
};

Sent counted_by(const CountingCommunicator& counted) {
    return {counted.bytes(), counted.exchanges(), counted.messages()};
}

/// Peers count no exchanges.
Sent counted_by(const distributed::CountingPeers& counted) {
    Sent sent;
    for (std::size_t kind = 0; kind < distributed::traffic_kinds; ++kind) {
        const auto of_kind = counted.sent(static_cast<Traffic>(kind));
        sent.bytes[kind] = of_kind.bytes;
        sent.messages[kind] = of_kind.messages;
    }
    return sent;
}

/// Plays all exchanges through `ranks`, whose exchanges `counted` counts.
void play_all(const Case& run, Communicator& ranks, CountingCommunicator& counted, bool free_order,
              Seen& seen) {
    const auto all = static_cast<std::size_t>(run.exchanges);
    Exchanges exchanges(run, ranks, seen, free_order);
    exchanges.play(0, all / 2);
    exchanges.take_all(); // the second hop of a gather counts where it is started
    seen.first_half = counted_by(counted);
    counted.reset();
    exchanges.play(all / 2, all);
    exchanges.take_all();
    seen.second_half = counted_by(counted);
}

template <class Disturbance>
Disturbance disturbance_of(const Case& run) {
    Disturbance disturbance;
    for (std::uint64_t kind = 0; kind < distributed::traffic_kinds; ++kind) {
        const std::uint64_t drawn = run.random(For::disturbances, {kind});
        disturbance.delay[kind] = drawn % 8 == 0 ? 1ms : 0ms;
        disturbance.late_start[kind] = drawn >> 8U & 3U;
        disturbance.hold_back[kind] = (drawn >> 16U & 1U) != 0;
    }
    return disturbance;
}

} // namespace

void play_exchanges(const Case& run, Communicator& ranks, Seen& seen) {
    distributed::Disturbance disturbance;
    if (run.way == Way::disturbed) {
        disturbance = disturbance_of<distributed::Disturbance>(run);
        disturbance.newest_first = run.random(For::disturbances) % 2 == 0;
    }
    CountingCommunicator counted(ranks, disturbance);
    if (run.way == Way::groups) {
        distributed::LevelsCommunicator in_groups(counted, groups_of(run));
        play_all(run, in_groups, counted, false, seen);
    } else {
        play_all(run, counted, counted, run.way != Way::disturbed, seen);
    }
}

namespace {

/// The receiver asks only when the sender has most probably left.
void play_last_message(Peers& peers, std::size_t number, Seen& seen) {
    const auto message = std::make_shared<Buffer>(last_message());
    const std::size_t size = message->size();
    if (peers.rank() == 0) {
        peers.send(Traffic::payload, 1, number, {message, message->data()}, size);
        peers.leave(std::string(last_words));
    }
    if (peers.rank() != 1)
        return;
    std::this_thread::sleep_for(5ms);
    seen.received.emplace_back(size);
    std::memcpy(seen.received.back().data(), peers.receive(Traffic::payload, 0, number, size)->wait(size),
                size);
    try {
        (void)peers.receive(Traffic::payload, 0, number + 1, size)->wait(size);
    } catch (const distributed::Aborted& error) {
        const std::string text = error.what();
        seen.ended.assign(text.begin(), text.end());
    }
}

/// Receivers ask for all messages of a window before any rank waits for one.
void play_messages(const Case& run, Peers& inner, Seen& seen) {
    using distributed::CountingPeers;
    CountingPeers peers(inner, run.way == Way::disturbed ? disturbance_of<distributed::PeerDisturbance>(run)
                                                         : distributed::PeerDisturbance());
    const auto all = static_cast<std::size_t>(run.exchanges);
    const auto window = static_cast<std::size_t>(run.at_once);
    struct Awaited {
        std::size_t number;
        std::size_t bytes;
        std::unique_ptr<distributed::IncomingMessage> incoming;
    };
    std::vector<std::shared_ptr<Buffer>> sent;
    seen.received.resize(all);
    for (std::size_t begin = 0; begin < all; begin += window) {
        std::vector<Awaited> awaited;
        const std::size_t end = std::min(all, begin + window);
        for (std::size_t number = begin; number < end; ++number)
            if (const Message one = message_of(run, number); one.to == peers.rank()) {
                auto incoming = peers.receive(one.traffic, one.from, number, one.bytes.size());
                if (!one.dropped)
                    awaited.push_back({number, one.bytes.size(), std::move(incoming)});
            }
        for (std::size_t number = begin; number < end; ++number)
            if (const Message one = message_of(run, number); one.from == peers.rank()) {
                sent.push_back(std::make_shared<Buffer>(one.bytes));
                peers.send(one.traffic, one.to, number, {sent.back(), sent.back()->data()},
                           one.bytes.size());
            }
        while (!awaited.empty()) {
            const auto rank = index(peers.rank());
            const auto at = awaited.begin() +
                            static_cast<std::ptrdiff_t>(
                                run.random(For::waits, {awaited.front().number, rank}) % awaited.size());
            Buffer& received = seen.received[at->number];
            received.resize(at->bytes);
            for (const auto& [first, last] :
                 {std::pair(std::size_t{0}, at->bytes / 2), {at->bytes / 2, at->bytes}}) {
                const std::byte* const data = at->incoming->wait(last);
                if (first < last)
                    std::memcpy(received.data() + first, data + first, last - first);
            }
            awaited.erase(at);
        }
    }
    seen.first_half = counted_by(peers);
    peers.reset();
    seen.second_half = counted_by(peers);
    (void)distributed::gather_records(peers, 0); // all have taken what was sent to them
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    for (std::shared_ptr<Buffer>& message : sent)
        while (!distributed::is_let_go(message)) {
            if (std::chrono::steady_clock::now() > deadline) {
                ++seen.kept;
                break;
            }
            peers.progress();
            std::this_thread::yield();
        }
    (void)distributed::gather_records(peers, 0); // no rank leaves before
    play_last_message(peers, all, seen);
}

/// With pieces nearly everything is cut, or only what is large; but no part into more than some hundreds.
std::size_t most_in_a_call(const Case& run) {
    if (run.way != Way::pieces)
        return 0;
    constexpr std::size_t most_pieces = 500;
    const std::uint64_t drawn = run.random(For::disturbances);
    return std::max((4 + drawn % 400) * ((drawn >> 32U & 1U) != 0 ? 50 : 1),
                    static_cast<std::size_t>(run.bytes) / most_pieces);
}

} // namespace

std::vector<Seen> Implementation::shared(const Case& run, std::vector<Seen> mine) const {
    for (std::size_t rank = 0; rank < mine.size(); ++rank)
        plant(known_bug_, run, rank, mine[rank]);
    return exchange_records(group(), mine);
}

std::vector<Seen> Implementation::exchanges(const Case& run) const {
    const auto workers = static_cast<int>(run.workers);
    std::vector<Seen> mine(index(workers));
    if (run.way != Way::peers) {
        group().run_in_pieces(workers, most_in_a_call(run), [&](Communicator& ranks) {
            play_exchanges(run, ranks, mine[index(ranks.rank())]);
        });
        return shared(run, std::move(mine));
    }
    const std::vector<int> members = members_of(run);
    group().run_peers(workers, [&](Peers& peers) {
        if (std::ranges::find(members, peers.rank()) == members.end())
            return;
        distributed::PeerCommunicator ranks(peers, members);
        play_exchanges(run, ranks, mine[index(peers.rank())]);
    });
    const std::vector<Seen> by_peer = shared(run, std::move(mine));
    std::vector<Seen> by_member;
    for (const int member : members)
        by_member.push_back(by_peer.at(index(member)));
    return by_member;
}

std::vector<Seen> Implementation::messages(const Case& run) const {
    const auto workers = static_cast<int>(run.workers);
    std::vector<Seen> mine(index(workers));
    group().run_peers_in_pieces(workers, most_in_a_call(run), [&](Peers& peers) {
        play_messages(run, peers, mine[index(peers.rank())]);
    });
    return shared(run, std::move(mine));
}

} // namespace truestep::properties::exchange
