// Tests messages between threads: order, buffers, dropped messages, and ranks that fail.
#include <truestep/distributed/in_process_peers.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace truestep::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::ThrowsMessage;

using Numbers = std::vector<std::uint64_t>;

std::shared_ptr<Numbers> message(int rank, std::uint64_t round, std::size_t size = 3) {
    return std::make_shared<Numbers>(size, static_cast<std::uint64_t>(rank) * 1000 + round);
}

void send(Peers& peers, int to, std::uint64_t round, const std::shared_ptr<Numbers>& numbers) {
    peers.send(Traffic::parameters, to, round, {numbers, numbers->data()}, numbers->size() * 8);
}

std::unique_ptr<IncomingMessage> receive(Peers& peers, int from, std::uint64_t round,
                                         std::size_t size = 3) {
    return peers.receive(Traffic::parameters, from, round, size * 8);
}

std::uint64_t value_of(IncomingMessage& incoming, std::size_t size = 3) {
    std::uint64_t value = 0;
    std::memcpy(&value, incoming.wait(size * 8) + (size - 1) * 8, sizeof value);
    return value;
}

/// Takes the message and checks it.
void take(Peers& peers, int from, std::uint64_t round) {
    EXPECT_EQ(value_of(*receive(peers, from, round)), static_cast<std::uint64_t>(from) * 1000 + round);
}

/// Runs a rank and returns the text of its Aborted, or "".
std::string told(const std::function<void()>& way) {
    try {
        way();
    } catch (const Aborted& error) {
        return error.what();
    }
    return "";
}

/// A signal from one rank to another, outside of Peers.
class Sign {
  public:
    void give() { given_ = true; }
    void await() const {
        while (!given_)
            std::this_thread::yield();
    }

  private:
    std::atomic<bool> given_ = false;
};

class InProcessPeersOf : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, InProcessPeersOf, ::testing::Range(1, 7),
                         ::testing::PrintToStringParamName());

TEST_P(InProcessPeersOf, EachKnowsItsPlace) {
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(GetParam()));
    run_peers(GetParam(), [&](Peers& peers) {
        EXPECT_EQ(peers.size(), GetParam());
        EXPECT_EQ(peers.name(), "in_process");
        ++seen.at(static_cast<std::size_t>(peers.rank()));
    });
    for (const auto& count : seen)
        EXPECT_EQ(count, 1);
}

/// A round of gossip on a complete graph, with two buffers that are reused once all ranks have
/// released them.
TEST_P(InProcessPeersOf, MessagesComeToWhomTheyWereSent) {
    run_peers(GetParam(), [](Peers& peers) {
        std::array<std::shared_ptr<Numbers>, 2> buffers{message(0, 0), message(0, 0)};
        for (std::uint64_t round = 0; round < 200; ++round) {
            auto& mine = buffers[round % 2];
            while (!is_let_go(mine))
                peers.progress();
            mine->assign(3, static_cast<std::uint64_t>(peers.rank()) * 1000 + round);
            for (int peer = 0; peer < peers.size(); ++peer)
                if (peer != peers.rank())
                    send(peers, peer, round, mine);
            for (int peer = 0; peer < peers.size(); ++peer)
                if (peer != peers.rank())
                    take(peers, peer, round);
        }
    });
}

TEST_P(InProcessPeersOf, ManyUnderWayKeepTheirOrder) {
    run_peers(GetParam(), [](Peers& peers) {
        const int next = (peers.rank() + 1) % peers.size();
        const int previous = (peers.rank() + peers.size() - 1) % peers.size();
        if (next == peers.rank())
            return;
        std::vector<std::unique_ptr<IncomingMessage>> incoming;
        for (std::uint64_t round = 0; round < 50; ++round) {
            if (round % 2 == 0)
                send(peers, next, round, message(peers.rank(), round));
            incoming.push_back(receive(peers, previous, round));
            if (round % 2 == 1)
                send(peers, next, round, message(peers.rank(), round));
        }
        for (std::uint64_t i = 0; i < 50; ++i) { // 7 and 50 have no common factor
            const std::uint64_t round = i * 7 % 50;
            EXPECT_EQ(value_of(*incoming[round]), static_cast<std::uint64_t>(previous) * 1000 + round);
            incoming[round].reset();
        }
    });
}

TEST(InProcessPeers, NothingIsCopied) {
    InProcessPeers group(2);
    const auto sender = group.peers(0);
    const auto receiver = group.peers(1);
    const auto numbers = message(0, 1);
    send(*sender, 1, 1, numbers);
    EXPECT_FALSE(is_let_go(numbers));
    auto incoming = receive(*receiver, 0, 1);
    const std::byte* const begin = incoming->wait(0);
    EXPECT_EQ(static_cast<const void*>(begin), numbers->data());
    EXPECT_EQ(incoming->wait(24), begin);
    EXPECT_FALSE(is_let_go(numbers)) << "it is read";
    incoming.reset();
    EXPECT_TRUE(is_let_go(numbers));
}

TEST(InProcessPeers, WhatIsDroppedIsDiscardedWhenItComes) {
    InProcessPeers group(2);
    const auto sender = group.peers(0);
    const auto receiver = group.peers(1);
    const auto first = message(0, 1);
    const auto second = message(0, 2);
    receive(*receiver, 0, 1).reset(); // before it has come
    send(*sender, 1, 1, first);
    EXPECT_TRUE(is_let_go(first));
    send(*sender, 1, 2, second);
    receive(*receiver, 0, 2).reset(); // after it has come, unseen
    EXPECT_TRUE(is_let_go(second));
    send(*sender, 1, 3, message(0, 3));
    take(*receiver, 0, 3);
}

/// The end of a message runs its sender's code, which may send again.
TEST(InProcessPeers, WhatIsDroppedMayBeFollowed) {
    InProcessPeers group(2);
    const auto sender = group.peers(0);
    const auto receiver = group.peers(1);
    receive(*receiver, 0, 1).reset();
    Numbers first(3);
    sender->send(Traffic::parameters, 1, 1,
                 {first.data(), [&](const void*) { send(*sender, 1, 2, message(0, 2)); }}, 24);
    take(*receiver, 0, 2);
}

TEST(InProcessPeers, WhatNobodyWillTakeIsLetGo) {
    InProcessPeers group(2);
    const auto sender = group.peers(0);
    auto receiver = group.peers(1);
    const auto before = message(0, 1);
    const auto after = message(0, 2);
    send(*sender, 1, 1, before);
    receiver.reset();
    EXPECT_TRUE(is_let_go(before));
    send(*sender, 1, 2, after);
    EXPECT_TRUE(is_let_go(after));
}

/// A message outlives its sender, and its Incoming the receiver's Peers.
TEST(InProcessPeers, WhatWasSentArrivesAfterTheSenderHasLeft) {
    InProcessPeers group(2);
    auto sender = group.peers(0);
    auto receiver = group.peers(1);
    auto early = receive(*receiver, 0, 1);
    send(*sender, 1, 1, message(0, 1));
    send(*sender, 1, 2, message(0, 2));
    receiver->must_go_on(Traffic::parameters, 0, 3);
    sender->leave("the disk is full");
    EXPECT_EQ(told([&] { receiver->must_go_on(Traffic::parameters, 0, 3); }),
              "rank 0 has failed: the disk is full");
    sender->leave("only the first call counts");
    sender.reset();
    EXPECT_EQ(value_of(*early), 1U);
    take(*receiver, 0, 2);
    EXPECT_EQ(told([&] { take(*receiver, 0, 3); }), "rank 0 has failed: the disk is full");
    receiver.reset();
    EXPECT_EQ(value_of(*early), 1U);
}

TEST(InProcessPeers, WrongUseIsRefused) {
    EXPECT_THROW(InProcessPeers(0), std::invalid_argument);
    InProcessPeers group(2);
    EXPECT_THROW((void)group.peers(2), std::invalid_argument);
    const auto peers = group.peers(0);
    EXPECT_THROW((void)group.peers(0), std::logic_error);
    EXPECT_THAT([&] { (void)receive(*peers, 0, 1); },
                ThrowsMessage<std::invalid_argument>("rank 0 is not a peer of rank 0 of 2"));
    EXPECT_THROW((void)receive(*peers, 2, 1), std::invalid_argument);
    EXPECT_THROW(send(*peers, -1, 1, message(0, 1)), std::invalid_argument);
    const auto incoming = receive(*peers, 1, 1);
    EXPECT_THROW((void)incoming->wait(25), std::invalid_argument);
    peers->leave("");
    EXPECT_THROW((void)receive(*peers, 1, 1), std::logic_error);
    EXPECT_THROW(send(*peers, 1, 1, message(0, 1)), std::logic_error);
    EXPECT_THROW((void)incoming->wait(24), std::logic_error);
}

TEST(InProcessPeersFaults, OnlyThoseThatNeedTheFailedRankEnd) {
    std::array<std::string, 4> ends;
    Sign others_are_done;
    const auto pairs = [&](Peers& peers) {
        const int rank = peers.rank();
        const int peer = rank ^ 1;
        ends[static_cast<std::size_t>(rank)] = told([&] {
            for (std::uint64_t round = 0; round < 20; ++round) {
                if (rank == 2 && round == 3)
                    throw std::out_of_range("a gradient of the wrong size");
                if (rank < 2 && round == 10 && rank == 0)
                    others_are_done.await(); // they end while these two still work
                send(peers, peer, round, message(rank, round));
                take(peers, peer, round);
            }
        });
        if (rank == 3) {
            others_are_done.give();
            throw Aborted(ends[3]);
        }
    };
    EXPECT_THAT([&] { run_peers(4, pairs); },
                ThrowsMessage<std::out_of_range>("a gradient of the wrong size"));
    EXPECT_EQ(ends[0], "");
    EXPECT_EQ(ends[1], "");
    EXPECT_EQ(ends[3], "rank 2 has failed: a gradient of the wrong size");
}

/// Each rank waits for the one before it. All get the first cause, in the same words.
TEST(InProcessPeersFaults, TheFirstCauseGoesThroughAChain) {
    std::array<std::string, 5> ends;
    const auto chain = [&](Peers& peers) {
        const int rank = peers.rank();
        if (rank == 0)
            throw std::runtime_error("on purpose");
        try {
            take(peers, rank - 1, 7);
        } catch (const Aborted& error) {
            ends[static_cast<std::size_t>(rank)] = error.what();
            throw;
        }
    };
    EXPECT_THAT([&] { run_peers(5, chain); }, ThrowsMessage<std::runtime_error>("on purpose"));
    for (std::size_t rank = 1; rank < ends.size(); ++rank)
        EXPECT_EQ(ends[rank], "rank 0 has failed: on purpose");
}

TEST(InProcessPeersFaults, ARankThatHasLeftIsNamedAtOnce) {
    const auto leaves = [](Peers& peers) {
        if (peers.rank() != 1)
            take(peers, (peers.rank() + 1) % 3, 4);
    };
    EXPECT_THAT(
        [&] { run_peers(3, leaves); },
        ThrowsMessage<Aborted>("rank 1 has left and did not send its parameters (message 4) to rank 0"));
}

TEST(InProcessPeersFaults, AHangingRankIsNamedAndItsNeighboursNeighboursAreTold) {
    Sign over;
    Sign one_has_ended;
    std::array<std::string, 3> ends;
    const auto hangs = [&](Peers& peers) {
        const auto rank = static_cast<std::size_t>(peers.rank());
        if (rank == 0) {
            over.await();
            return;
        }
        if (rank == 2)
            one_has_ended.await();
        ends[rank] = told([&] { take(peers, peers.rank() - 1, 7); });
        peers.leave(ends[rank]);
        (rank == 1 ? one_has_ended : over).give();
        throw Aborted(ends[rank]);
    };
    EXPECT_THROW(run_peers(3, hangs, 100ms), Aborted);
    const std::string line = "rank 0 did not send its parameters (message 7) to rank 1 within 0.1 s";
    EXPECT_EQ(ends[1], line);
    EXPECT_EQ(ends[2], line);
}

/// No rank has ended yet, and rank 2 looks for the rank that holds rank 1 up.
TEST(InProcessPeersFaults, WhoWaitsItselfIsNotTheOneThatIsLate) {
    InProcessPeers group(3, 20ms);
    const auto one = group.peers(1);
    const auto two = group.peers(2);
    const auto awaited = receive(*one, 0, 3);
    EXPECT_EQ(told([&] { (void)awaited->wait(24); }),
              "rank 0 did not send its parameters (message 3) to rank 1 within 0.02 s");
    EXPECT_EQ(told([&] { take(*two, 1, 3); }),
              "rank 1 did not send its parameters (message 3) to rank 2 within 0.02 s; rank 0 holds it up");
    EXPECT_EQ(told([&] { (void)receive(*one, 2, 4)->wait(24); }),
              "rank 2 did not send its parameters (message 4) to rank 1 within 0.02 s; rank 1 holds it up");
}

TEST(InProcessPeersFaults, WhoseMessageHasComeWaitsForNobody) {
    InProcessPeers group(3, 20ms);
    const auto zero = group.peers(0);
    const auto one = group.peers(1);
    send(*zero, 1, 3, message(0, 3));
    take(*one, 0, 3);
    EXPECT_EQ(told([&] { take(*group.peers(2), 1, 3); }),
              "rank 1 did not send its parameters (message 3) to rank 2 within 0.02 s");
}

TEST(InProcessPeersFaults, AnotherMessageIsRefused) {
    const std::string sent = "rank 0 sent its parameters (message 1, 24 bytes) where rank 1 awaits its ";
    const std::array<std::string, 3> expected{sent + "parameters (message 2, 24 bytes)",
                                              sent + "gradient (message 1, 24 bytes)",
                                              sent + "parameters (message 1, 16 bytes)"};
    for (std::size_t fault = 0; fault < expected.size(); ++fault) {
        InProcessPeers group(2);
        const auto sender = group.peers(0);
        const auto receiver = group.peers(1);
        send(*sender, 1, 1, message(0, 1));
        const auto incoming = receiver->receive(fault == 1 ? Traffic::gradient : Traffic::parameters, 0,
                                                fault == 0 ? 2 : 1, fault == 2 ? 16 : 24);
        for (int look = 0; look < 2; ++look)
            EXPECT_EQ(told([&] { (void)incoming->wait(1); }), expected.at(fault));
    }
}

/// What a rank adds to an error that it received reaches the others, too.
TEST(InProcessPeersFaults, AReasonThatBeginsWithWhatWasToldNamesNoSecondRank) {
    InProcessPeers group(3);
    const auto one = group.peers(1);
    const auto two = group.peers(2);
    group.peers(0)->leave("on purpose");
    const std::string end = told([&] { take(*one, 0, 1); });
    EXPECT_EQ(end, "rank 0 has failed: on purpose");
    one->leave(end + " (case 7)");
    EXPECT_EQ(told([&] { take(*two, 1, 1); }), "rank 0 has failed: on purpose (case 7)");
}

TEST(InProcessPeersFaults, AnErrorThatIsNoExceptionIsToldToo) {
    const auto throws = [](Peers& peers) {
        if (peers.rank() == 0)
            throw 7; // NOLINT(hicpp-exception-baseclass)
        EXPECT_EQ(told([&] { take(peers, 0, 1); }),
                  "rank 0 has failed: an error that is not a std::exception");
    };
    EXPECT_THROW(run_peers(2, throws), int);
}

/// A neighbour may read a failed rank's message at that very moment, and does so to its end.
TEST(InProcessPeersFaults, FailuresAtAnyMomentLeaveNoReaderBehind) {
    constexpr std::size_t size = 20'000;
    for (int turn = 0; turn < 100; ++turn) {
        const auto step = [turn](Peers& peers) {
            for (std::uint64_t round = 0; round < 3; ++round) {
                const auto mine = message(peers.rank(), round, size);
                for (int peer = 0; peer < 3; ++peer)
                    if (peer != peers.rank())
                        send(peers, peer, round, mine);
                if (round == 1 && peers.rank() == turn % 3)
                    throw std::runtime_error("failed");
                for (int peer = 0; peer < 3; ++peer)
                    if (peer != peers.rank()) {
                        const auto incoming = receive(peers, peer, round, size);
                        const auto* const values =
                            reinterpret_cast<const std::uint64_t*>(incoming->wait(size * 8));
                        for (std::size_t i = 0; i < size; ++i)
                            ASSERT_EQ(values[i], static_cast<std::uint64_t>(peer) * 1000 + round);
                    }
            }
        };
        EXPECT_THROW(run_peers(3, step), std::runtime_error);
    }
}

} // namespace
} // namespace truestep::distributed
