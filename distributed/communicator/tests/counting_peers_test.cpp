// Tests that counting peers count every message, and that no disturbance changes a result.
#include <truestep/distributed/counting_peers.hpp>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/in_process_peers.hpp>

namespace truestep::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Sent = CountingPeers::Sent;

constexpr std::uint64_t no_sense = 0xA5A5A5A5A5A5A5A5;

std::size_t index(Traffic traffic) {
    return static_cast<std::size_t>(traffic);
}

using Numbers = std::vector<std::uint64_t>;

void send(Peers& peers, int to, std::uint64_t number, const std::shared_ptr<Numbers>& numbers,
          Traffic traffic = Traffic::parameters) {
    peers.send(traffic, to, number, {numbers, numbers->data()}, numbers->size() * 8);
}

std::shared_ptr<Numbers> numbers(std::uint64_t first) {
    return std::make_shared<Numbers>(Numbers{first, first + 1});
}

std::uint64_t at(const std::byte* data, std::size_t i) {
    std::uint64_t value = 0;
    std::memcpy(&value, data + 8 * i, 8);
    return value;
}

TEST(CountingPeers, CountsByKindAndByPeer) {
    run_peers(3, [](Peers& inner) {
        CountingPeers peers(inner);
        EXPECT_EQ(peers.rank(), inner.rank());
        EXPECT_EQ(peers.size(), 3);
        EXPECT_EQ(peers.name(), "in_process");
        EXPECT_THAT(peers.bytes(), Each(0U));
        if (peers.rank() != 0)
            return;
        send(peers, 1, 1, numbers(1));
        send(peers, 1, 2, numbers(1));
        send(peers, 2, 1, numbers(1));
        send(peers, 2, 2, numbers(1), Traffic::moment);
        send(peers, 2, 3, std::make_shared<Numbers>(), Traffic::moment);
        EXPECT_EQ(peers.sent(Traffic::parameters, 1), (Sent{2, 32}));
        EXPECT_EQ(peers.sent(Traffic::parameters, 2), (Sent{1, 16}));
        EXPECT_EQ(peers.sent(Traffic::parameters, 0), (Sent{0, 0}));
        EXPECT_EQ(peers.sent(Traffic::parameters), (Sent{3, 48}));
        EXPECT_EQ(peers.sent(Traffic::moment), (Sent{2, 16}));
        EXPECT_EQ(peers.sent_to(2), (Sent{3, 32}));
        EXPECT_THAT(peers.bytes(), ElementsAre(0, 0, 16, 0, 0, 48));
        EXPECT_THROW(send(peers, 0, 1, numbers(1)), std::invalid_argument);
        EXPECT_EQ(peers.sent_to(0), (Sent{0, 0})) << "what was refused";
        peers.reset();
        EXPECT_THAT(peers.bytes(), Each(0U));
        EXPECT_EQ(peers.sent_to(1), (Sent{0, 0}));
    });
}

TEST(CountingPeers, ADelayLastsUntilTheTimeIsOver) {
    InProcessPeers group(3);
    const auto zero = group.peers(0);
    const auto one = group.peers(1);
    const auto two = group.peers(2);
    PeerDisturbance disturbance;
    disturbance.delay[index(Traffic::parameters)] = 20ms;
    disturbance.delay_from = {0ms, 20ms};
    CountingPeers peers(*two, disturbance);
    send(*zero, 2, 1, numbers(1));
    send(*one, 2, 1, numbers(3));
    const auto begin = std::chrono::steady_clock::now();
    const auto from_one = peers.receive(Traffic::parameters, 1, 1, 16);
    const auto from_zero = peers.receive(Traffic::parameters, 0, 1, 16);
    EXPECT_EQ(at(from_zero->wait(16), 1), 2U);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
    EXPECT_EQ(at(from_one->wait(16), 1), 4U);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 40ms);
}

TEST(CountingPeers, WhatIsHeldBackShowsOnlyWhatWasWaitedFor) {
    InProcessPeers group(2);
    const auto zero = group.peers(0);
    const auto one = group.peers(1);
    PeerDisturbance disturbance;
    disturbance.hold_back.fill(true);
    CountingPeers peers(*one, disturbance);
    send(*zero, 1, 1, numbers(7));
    auto incoming = peers.receive(Traffic::parameters, 0, 1, 16);
    const std::byte* const data = incoming->wait(8);
    EXPECT_EQ(at(data, 0), 7U);
    EXPECT_EQ(at(data, 1), no_sense) << "it is there, but has not been waited for";
    EXPECT_EQ(incoming->wait(16), data);
    EXPECT_EQ(incoming->wait(3), data);
    EXPECT_EQ(at(data, 1), 8U);
    incoming.reset();
    EXPECT_EQ(at(data, 0), no_sense) << "a receiver that keeps the pointer";
    EXPECT_EQ(at(data, 1), no_sense);
}

/// Inner peers that record what is really sent, and when.
class Witness final : public Peers {
  public:
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 4; }
    [[nodiscard]] std::string name() const override { return "witness"; }
    void send(Traffic, int peer, std::uint64_t number, std::shared_ptr<const void>, std::size_t) override {
        sent.emplace_back(peer, number);
    }
    std::unique_ptr<IncomingMessage> receive(Traffic, int, std::uint64_t, std::size_t) override {
        return std::make_unique<Nothing>();
    }
    void progress() override { sent.emplace_back(0, 0); }
    void leave(const std::string&) noexcept override { sent.emplace_back(0, 99); }

    std::vector<std::pair<int, std::uint64_t>> sent;

  private:
    class Nothing final : public IncomingMessage {
        const std::byte* wait(std::size_t) override { return nullptr; }
    };
};

using Pair = std::pair<int, std::uint64_t>;

TEST(CountingPeers, MessagesToOthersOvertakeALateOne) {
    Witness witness;
    PeerDisturbance disturbance;
    disturbance.late_start[index(Traffic::parameters)] = 3;
    CountingPeers peers(witness, disturbance);
    const auto message = numbers(1);
    send(peers, 1, 1, message);
    send(peers, 2, 2, message, Traffic::moment);
    EXPECT_THAT(witness.sent, ElementsAre(Pair(2, 2)));
    EXPECT_FALSE(is_let_go(message));
    const auto awaited = peers.receive(Traffic::moment, 3, 1, 8);
    EXPECT_THAT(witness.sent, ElementsAre(Pair(2, 2)));
    send(peers, 3, 3, message, Traffic::moment); // the third call
    EXPECT_THAT(witness.sent, ElementsAre(Pair(2, 2), Pair(1, 1), Pair(3, 3)));
    send(peers, 1, 4, message);
    send(peers, 1, 5, message, Traffic::moment); // messages to one peer keep their order
    EXPECT_THAT(witness.sent, ElementsAre(Pair(2, 2), Pair(1, 1), Pair(3, 3), Pair(1, 4), Pair(1, 5)));
}

TEST(CountingPeers, WhatIsLateGoesBeforeThisRankWaitsMakesProgressOrLeaves) {
    Witness witness;
    PeerDisturbance disturbance;
    disturbance.late_start.fill(100);
    {
        CountingPeers peers(witness, disturbance);
        const auto send_three = [&] {
            witness.sent.clear();
            send(peers, 1, 1, numbers(1));
            send(peers, 2, 2, numbers(1));
            send(peers, 1, 3, numbers(1));
            EXPECT_THAT(witness.sent, IsEmpty());
        };
        send_three();
        (void)peers.receive(Traffic::moment, 3, 1, 8)->wait(8);
        EXPECT_THAT(witness.sent, ElementsAre(Pair(1, 1), Pair(1, 3), Pair(2, 2)));
        send_three();
        peers.progress();
        EXPECT_THAT(witness.sent, ElementsAre(Pair(1, 1), Pair(1, 3), Pair(2, 2), Pair(0, 0)));
        send_three();
        peers.leave("");
        EXPECT_THAT(witness.sent, ElementsAre(Pair(1, 1), Pair(1, 3), Pair(2, 2), Pair(0, 99)));
        witness.sent.clear();
        send(peers, 1, 1, numbers(1));
        send(peers, 2, 2, numbers(1));
        EXPECT_THAT(witness.sent, IsEmpty());
    }
    EXPECT_THAT(witness.sent, ElementsAre(Pair(2, 2), Pair(1, 1))) << "at the latest at the end";
}

/// Rounds of a ring in both directions, folded in pieces. Returns the computed values.
std::vector<std::uint64_t> rounds(Peers& peers) {
    const int next = (peers.rank() + 1) % peers.size();
    const int previous = (peers.rank() + peers.size() - 1) % peers.size();
    std::vector<std::uint64_t> results;
    auto mine = numbers(static_cast<std::uint64_t>(peers.rank()));
    for (std::uint64_t round = 0; round < 20; ++round) {
        send(peers, next, round, mine);
        send(peers, previous, round, mine, Traffic::moment);
        const auto one = peers.receive(Traffic::parameters, previous, round, 16);
        const auto other = peers.receive(Traffic::moment, next, round, 16);
        auto folded = std::make_shared<Numbers>(2);
        for (std::size_t i = 0; i < 2; ++i)
            (*folded)[i] = 3 * at(one->wait(8 * i + 8), i) + at(other->wait(8 * i + 8), i);
        mine = folded;
        results.insert(results.end(), mine->begin(), mine->end());
    }
    return results;
}

class CountingPeersDisturb : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CountingPeersDisturb, ::testing::Values(2, 3, 5));

TEST_P(CountingPeersDisturb, NoDisturbanceChangesAResult) {
    std::vector<PeerDisturbance> disturbances(5);
    disturbances[1].delay.fill(1ms);
    disturbances[1].delay_from = {0ms, 2ms};
    disturbances[2].late_start[index(Traffic::parameters)] = 2;
    disturbances[3].late_start = {1, 2, 3, 4, 5, 100};
    disturbances[3].hold_back.fill(true);
    disturbances[4].hold_back[index(Traffic::moment)] = true;
    run_peers(GetParam(), [&](Peers& inner) {
        const auto expected = rounds(inner);
        for (const PeerDisturbance& disturbance : disturbances) {
            CountingPeers peers(inner, disturbance);
            EXPECT_EQ(rounds(peers), expected);
            EXPECT_EQ(peers.sent(Traffic::parameters), (Sent{20, 320}));
        }
    });
}

TEST(CountingPeersFaults, ErrorsComeThrough) {
    PeerDisturbance disturbance;
    disturbance.hold_back.fill(true);
    disturbance.late_start.fill(7);
    const auto step = [&](Peers& inner) {
        CountingPeers peers(inner, disturbance);
        if (peers.rank() == 1) {
            send(peers, 0, 1, numbers(5));
            throw std::out_of_range("on purpose");
        }
        EXPECT_EQ(at(peers.receive(Traffic::parameters, 1, 1, 16)->wait(16), 0), 5U) << "sent all the same";
        EXPECT_THAT([&] { (void)peers.receive(Traffic::parameters, 1, 2, 16)->wait(16); },
                    ThrowsMessage<Aborted>("rank 1 has failed: on purpose"));
    };
    EXPECT_THAT([&] { run_peers(2, step); }, ThrowsMessage<std::out_of_range>("on purpose"));
}

} // namespace
} // namespace truestep::distributed
