// Peers for vectors in a machine's memory, in the host's form.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/counting_peers.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/peers.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gpu {
namespace {

using distributed::IncomingMessage;
using distributed::Peers;
using distributed::Traffic;
using Floats = std::vector<float>;

constexpr std::uint64_t seeds = 40;
constexpr std::size_t size = 70;
constexpr std::size_t bytes = size * sizeof(float);

/// A rank whose vectors only its stream writes and reads.
class Rank {
  public:
    Rank(Peers& ranks, std::uint64_t seed)
        : stream_(64, seed),
          peers_(make_block_peers(ranks, stream_, {Traffic::parameters, Traffic::payload})),
          machine_(stream_, Exchange::device) {}
    Peers& peers() { return *peers_; }

    std::shared_ptr<HostMachine::Vector<float>> vector(float value) {
        auto made = std::make_shared<HostMachine::Vector<float>>();
        machine_.resize(*made, static_cast<Index>(size));
        write(*made, value);
        return made;
    }
    void write(HostMachine::Vector<float>& to, float value) {
        machine_.upload(to.data(), Floats(size, value).data(), static_cast<Index>(size));
    }
    Floats read(const std::byte* from) {
        Floats to(size);
        machine_.download(to.data(), reinterpret_cast<const float*>(from), static_cast<Index>(size));
        return to;
    }

  private:
    HostStream stream_;
    std::unique_ptr<Peers> peers_;
    HostMachine machine_;
};

std::shared_ptr<const void> lent(const std::shared_ptr<HostMachine::Vector<float>>& vector) {
    return {vector, vector->data()};
}

float value_of(int rank, std::uint64_t round) {
    return static_cast<float>(rank) * 100.0F + static_cast<float>(round);
}

TEST(BlockPeers, WhatTheStreamHasWrittenComesThoughItIsWrittenAgain) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        distributed::run_peers(3, [&](Peers& ranks) {
            Rank rank(ranks, seed + 100 * static_cast<std::uint64_t>(ranks.rank()));
            const auto y = rank.vector(0.0F);
            for (std::uint64_t round = 1; round <= 4; ++round) {
                rank.write(*y, value_of(ranks.rank(), round));
                std::vector<std::unique_ptr<IncomingMessage>> incoming(3);
                for (int peer = 0; peer < 3; ++peer)
                    if (peer != ranks.rank())
                        incoming[static_cast<std::size_t>(peer)] =
                            rank.peers().receive(Traffic::parameters, peer, round, bytes);
                for (int peer = 0; peer < 3; ++peer)
                    if (peer != ranks.rank())
                        rank.peers().send(Traffic::parameters, peer, round, lent(y), bytes);
                rank.write(*y, -1.0F);
                for (int peer = 0; peer < 3; ++peer)
                    if (peer != ranks.rank()) {
                        const std::byte* const here = incoming[static_cast<std::size_t>(peer)]->wait(bytes);
                        EXPECT_EQ(rank.read(here), Floats(size, value_of(peer, round))) << seed;
                    }
            }
        });
}

/// Parameters of one number go to all neighbours as one copy. The next payload may reuse the memory
/// and number of the last one.
TEST(BlockPeers, APayloadIsCopiedEachTimeItIsSent) {
    distributed::run_peers(2, [](Peers& ranks) {
        Rank rank(ranks, 5);
        const int peer = 1 - ranks.rank();
        const auto z = rank.vector(0.0F);
        for (const float value : {1.0F, 2.0F}) {
            const auto incoming = rank.peers().receive(Traffic::payload, peer, 0, bytes);
            rank.write(*z, value);
            rank.peers().send(Traffic::payload, peer, 0, lent(z), bytes);
            EXPECT_EQ(rank.read(incoming->wait(bytes)), Floats(size, value));
        }
    });
}

TEST(BlockPeers, AllElseStaysOnTheHost) {
    distributed::run_peers(3, [](Peers& ranks) {
        Rank rank(ranks, 1);
        EXPECT_EQ(distributed::gather_records(rank.peers(), ranks.rank()), (std::vector<int>{0, 1, 2}));
        EXPECT_TRUE(rank.peers().host_can_read(Traffic::agreement));
        EXPECT_FALSE(rank.peers().host_can_read(Traffic::parameters));
        EXPECT_EQ(rank.peers().name(), "in_process");
    });
}

TEST(BlockPeers, WhatTheHostCannotReadIsCountedAndNotHeldBack) {
    distributed::run_peers(2, [](Peers& ranks) {
        Rank rank(ranks, 3);
        distributed::PeerDisturbance disturbance;
        disturbance.hold_back.fill(true);
        disturbance.late_start.fill(2);
        distributed::CountingPeers counted(rank.peers(), disturbance);
        const int peer = 1 - ranks.rank();
        const auto y = rank.vector(value_of(ranks.rank(), 1));
        const auto incoming = counted.receive(Traffic::parameters, peer, 1, bytes);
        counted.send(Traffic::parameters, peer, 1, lent(y), bytes);
        EXPECT_EQ(rank.read(incoming->wait(bytes)), Floats(size, value_of(peer, 1)));
        EXPECT_EQ(counted.sent(Traffic::parameters, peer).bytes, bytes);
    });
}

TEST(BlockPeers, AVectorThatHasBeenSentIsTheSendersAgain) {
    distributed::run_peers(2, [](Peers& ranks) {
        Rank rank(ranks, 2);
        const auto y = rank.vector(1.0F);
        rank.peers().send(Traffic::parameters, 1 - ranks.rank(), 1, lent(y), bytes);
        EXPECT_TRUE(distributed::is_let_go(y));
        static_cast<void>(
            rank.peers().receive(Traffic::parameters, 1 - ranks.rank(), 1, bytes)->wait(bytes));
    });
}

TEST(BlockPeers, OneThatFailsIsNamedToThoseThatNeedIt) {
    std::atomic<int> told{0};
    try {
        distributed::run_peers(3, [&](Peers& ranks) {
            Rank rank(ranks, 1);
            if (ranks.rank() == 2)
                throw Error("out of memory");
            if (ranks.rank() == 1)
                return; // a single rank needs no peer
            try {
                static_cast<void>(rank.peers().receive(Traffic::parameters, 2, 1, bytes)->wait(bytes));
            } catch (const distributed::Aborted& aborted) {
                EXPECT_EQ(std::string(aborted.what()), "rank 2 has failed: out of memory");
                ++told;
            }
        });
        FAIL() << "nobody noticed";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "out of memory");
    }
    EXPECT_EQ(told, 1);
}

} // namespace
} // namespace truestep::gpu
