// Tests a communicator among some of the ranks that send messages to each other, beside messages to
// the others.
#include <truestep/distributed/peer_communicator.hpp>

#include <cstring>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/problem/error.hpp>

#include "exchanges.hpp"

namespace truestep::distributed {
namespace {

constexpr int columns = 3;

/// Work for ranks in rows of three. Each row forms a communicator, with the last rank first, and
/// `work` gets a rank's own row.
using RowWork = std::function<void(Communicator&, Peers&)>;
void in_rows(int rows, const RowWork& work) {
    run_peers(rows * columns, [&](Peers& peers) {
        std::vector<int> ranks;
        for (int column = columns; column-- > 0;)
            ranks.push_back(peers.rank() % rows + column * rows);
        PeerCommunicator row(peers, ranks);
        work(row, peers);
    });
}

TEST(PeerCommunicatorTest, EachKnowsItsPlaceAmongSome) {
    in_rows(2, [](Communicator& row, Peers& peers) {
        EXPECT_EQ(row.size(), columns);
        EXPECT_EQ(row.rank(), columns - 1 - peers.rank() / 2);
        EXPECT_EQ(row.name(), "in_process");
    });
}

TEST(PeerCommunicatorTest, AllExchangesBringEachPartToItsRank) {
    for (const int rows : {1, 2})
        in_rows(rows, [](Communicator& row, Peers&) {
            for (std::size_t round = 0; round < 20; ++round) {
                AllToAll parts(row, round);
                AllGather mask(row, round, round % 2 == 0);
                if (round % 3 == 0) { // in another order than they were started in
                    mask.wait();
                    parts.wait();
                } else {
                    parts.wait();
                    mask.wait();
                }
                const std::vector<int> records = gather_records(row, row.rank() * 10);
                EXPECT_EQ(records, (std::vector<int>{0, 10, 20}));
            }
        });
}

TEST(PeerCommunicatorTest, SumsAreAddedInRankOrder) {
    in_rows(2, [](Communicator& row, Peers&) {
        // (1 + 2^-24) + 2^-24 loses both small terms; in any other order they count.
        constexpr float small = 0x1p-24F;
        const float own = row.rank() == 0 ? 1.0F : small;
        const std::vector<std::size_t> sizes{4, 0, 8};
        const std::vector<float> send(3, own);
        std::vector<float> sum(sizes[static_cast<std::size_t>(row.rank())] / 4, -1.0F);
        row.start_reduce_scatter(Traffic::gradient, send.data(), sum.data(), sizes)->wait();
        for (const float value : sum)
            EXPECT_EQ(value, 1.0F);
    });
}

TEST(PeerCommunicatorTest, WhatIsUnderWayGoesBesideMessagesToNeighbours) {
    in_rows(2, [](Communicator& row, Peers& peers) {
        const int neighbour = peers.rank() ^ 1; // the same column, the other row
        for (std::uint64_t round = 0; round < 10; ++round) {
            AllGather mask(row, round, true);
            const auto incoming = peers.receive(Traffic::payload, neighbour, round, sizeof(int));
            const auto message = std::make_shared<int>(peers.rank() + static_cast<int>(round));
            peers.send(Traffic::payload, neighbour, round, message, sizeof(int));
            AllToAll parts(row, round);
            int came = 0;
            std::memcpy(&came, incoming->wait(sizeof came), sizeof came);
            EXPECT_EQ(came, neighbour + static_cast<int>(round));
            parts.wait();
            mask.wait();
        }
    });
}

TEST(PeerCommunicatorTest, MemoryIsTheCallersOnceItHasWaited) {
    in_rows(1, [](Communicator& row, Peers& peers) {
        std::vector<std::size_t> sizes(columns, sizeof(int));
        std::vector<int> own(1, peers.rank());
        std::vector<int> all(columns, -1);
        const auto exchange = row.start_all_gather(Traffic::mask, own.data(), all.data(), sizes);
        exchange->wait();
        own[0] = 99; // so that a rank that has not read it yet gets it wrong
        EXPECT_EQ(all, (std::vector<int>{2, 1, 0}));
        exchange->wait(); // again: nothing
        EXPECT_EQ(all, (std::vector<int>{2, 1, 0}));
    });
}

TEST(PeerCommunicatorTest, ARankThatFailsEndsItsRowAndNobodyElse) {
    std::vector<std::string> told(6);
    EXPECT_THROW(run_peers(6,
                           [&](Peers& peers) {
                               PeerCommunicator row(peers, peers.rank() % 2 == 0
                                                               ? std::vector<int>{0, 2, 4}
                                                               : std::vector<int>{1, 3, 5});
                               if (peers.rank() == 2) {
                                   row.abort("the disk is full");
                                   throw std::runtime_error("the disk is full");
                               }
                               try {
                                   EXPECT_EQ(gather_records(row, 7), std::vector<int>(3, 7));
                                   told[as_size(peers.rank())] = "all there";
                               } catch (const Aborted& error) {
                                   told[as_size(peers.rank())] = error.what();
                               }
                           }),
                 std::runtime_error);
    for (const std::size_t rank : {1U, 3U, 5U})
        EXPECT_EQ(told[rank], "all there");
    for (const std::size_t rank : {0U, 4U})
        EXPECT_NE(told[rank].find("rank 2 has failed: the disk is full"), std::string::npos) << told[rank];
}

/// Peers whose messages the host cannot read.
class OnADevice final : public Peers {
  public:
    explicit OnADevice(Peers& inner) : inner_(inner) {}
    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return "device"; }
    void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
              std::size_t bytes) override {
        inner_.send(traffic, peer, number, std::move(message), bytes);
    }
    [[nodiscard]] std::unique_ptr<IncomingMessage> receive(Traffic traffic, int peer, std::uint64_t number,
                                                           std::size_t bytes) override {
        return inner_.receive(traffic, peer, number, bytes);
    }
    [[nodiscard]] bool host_can_read(Traffic traffic) const override {
        return traffic == Traffic::agreement;
    }
    void progress() override { inner_.progress(); }
    void leave(const std::string& reason) noexcept override { inner_.leave(reason); }

  private:
    Peers& inner_;
};

TEST(PeerCommunicatorTest, PeersOfADeviceAreRefused) {
    run_peers(1, [](Peers& peers) {
        OnADevice device(peers);
        EXPECT_THROW(PeerCommunicator(device, {0}), Error);
    });
}

TEST(PeerCommunicatorTest, ARankOutsideIsRefused) {
    run_peers(3, [](Peers& peers) {
        if (peers.rank() == 0) {
            EXPECT_THROW(PeerCommunicator(peers, {1, 2}), std::invalid_argument);
            EXPECT_THROW(PeerCommunicator(peers, {0, 1, 1}), std::invalid_argument);
            EXPECT_EQ(PeerCommunicator(peers, {0}).size(), 1);
        }
    });
}

} // namespace
} // namespace truestep::distributed
