// Copies of a boundary that share one A, by the mean of their gradients.
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/distributed/mapl/replicas.hpp>
#include <truestep/distributed/mapl/spel_step.hpp>
#include <truestep/distributed/peer_communicator.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::distributed::mapl {
namespace {

using distributed::Communicator;
using distributed::PeerCommunicator;
using distributed::Peers;

constexpr int copies = 3;

/// Rank 2p is the sender of replica p, rank 2p + 1 its receiver.
std::vector<int> all_senders() {
    return {0, 2, 4};
}

Floats of_replica(int replica, double frequency, std::size_t size) {
    Floats made(size);
    for (std::size_t i = 0; i < size; ++i)
        made[i] = static_cast<float>(std::sin(frequency * static_cast<double>(i + 1) + replica));
    return made;
}

TEST(MaplReplicas, TheMeanIsAddedInRankOrderAndToldToTheByte) {
    for (const std::size_t size : {0U, 1U, 2U, 7U, 12U}) {
        std::array<Floats, copies> means;
        std::array<std::uint64_t, copies> bytes{};
        distributed::run_ranks(copies, [&](Communicator& ranks) {
            distributed::CountingCommunicator counted(ranks);
            const auto rank = static_cast<std::size_t>(ranks.rank());
            means[rank] = of_replica(ranks.rank(), 0.7, size);
            mean_over(counted, means[rank]);
            for (const std::uint64_t kind : counted.bytes())
                bytes[rank] += kind;
        });
        const Floats a = of_replica(0, 0.7, size);
        const Floats b = of_replica(1, 0.7, size);
        const Floats c = of_replica(2, 0.7, size);
        for (std::size_t i = 0; i < size; ++i)
            EXPECT_EQ(means[0][i], ((a[i] + b[i]) + c[i]) / 3.0F);
        EXPECT_EQ(means[1], means[0]);
        EXPECT_EQ(means[2], means[0]);
        // Each value goes once to its owner, from all others, and its mean once to each of the
        // others.
        EXPECT_EQ(bytes[0] + bytes[1] + bytes[2], 2 * (copies - 1) * 4 * size);
    }
}

TEST(MaplReplicas, AllFollowTheMeanAndEndWithTheSameSubspace) {
    const Settings settings{.width = 5, .rank = 2, .vocabulary = 1};
    const Floats start = first_subspace(5, 2, 3);
    const std::vector<Id> ids(4, 0);
    std::array<std::vector<Floats>, 2 * copies> subspaces;
    std::array<std::vector<Floats>, copies> own;
    std::array<std::vector<Floats>, copies> means;
    constexpr int steps = 4;
    distributed::run_peers(2 * copies, [&](Peers& peers) {
        const auto rank = static_cast<std::size_t>(peers.rank());
        const int replica = peers.rank() / 2;
        if (rank % 2 == 1) {
            Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), peers,
                              peers.rank() - 1);
            for (int step = 0; step < steps; ++step) {
                Floats g = receiver.forward(0, 4).activations;
                const Floats other = of_replica(replica + step, 1.3, g.size());
                for (std::size_t i = 0; i < g.size(); ++i)
                    g[i] -= other[i];
                receiver.backward(0, g);
                receiver.end_step();
                subspaces[rank].push_back(receiver.subspace());
            }
            return;
        }
        PeerCommunicator senders(peers, all_senders());
        Sender sender(settings, first_state(settings, Side::sender, start, {}), peers, peers.rank() + 1,
                      &senders);
        for (int step = 0; step < steps; ++step) {
            sender.forward(0, of_replica(replica * 7 + step, 0.9, 20), ids);
            static_cast<void>(sender.backward(0));
            for (const double wrong : {std::numeric_limits<double>::quiet_NaN(), -0.05, 0.06})
                EXPECT_THAT([&] { sender.end_step(replica == 1 ? wrong : 0.05); },
                            testing::ThrowsMessage<Error>(
                                testing::HasSubstr("replica 1 of the sender has the rate " +
                                                   shortest(wrong) + " where replica 0 has 0.05")));
            EXPECT_TRUE(sender.end_step(0.05)) << "what was refused has changed nothing";
            subspaces[rank].push_back(sender.subspace());
            own[rank / 2].push_back(sender.own_subspace_gradient());
            means[rank / 2].push_back(sender.subspace_gradient());
        }
    });
    for (const auto& of_rank : subspaces)
        EXPECT_EQ(of_rank, subspaces[0]);
    EXPECT_EQ(means[1], means[0]);
    EXPECT_EQ(means[2], means[0]);
    EXPECT_NE(own[1], own[0]);
    Floats a = start;
    Floats m(a.size(), 0.0F);
    for (std::size_t step = 0; step < means[0].size(); ++step) {
        Floats mean;
        for (std::size_t i = 0; i < a.size(); ++i)
            mean.push_back(((own[0][step][i] + own[1][step][i]) + own[2][step][i]) / 3.0F);
        EXPECT_EQ(means[0][step], mean);
        EXPECT_TRUE(spel_step(settings, mean, 0.05, a, m));
        EXPECT_EQ(subspaces[0][step], a);
    }
}

TEST(MaplReplicas, OneThatBeginsOtherwiseIsNamedByAll) {
    const Settings settings{.width = 4, .rank = 2, .vocabulary = 1};
    const auto told = [&](const std::function<void(Settings&, EndState&)>& change) {
        std::array<std::string, 2 * copies> lines;
        distributed::run_peers(2 * copies, [&](Peers& peers) {
            Settings mine = settings;
            const Side side = peers.rank() % 2 == 0 ? Side::sender : Side::receiver;
            EndState state = first_state(mine, side, first_subspace(4, 2, 1), {});
            if (peers.rank() / 2 == 1) // both sides of that replica, which agree with each other
                change(mine, state);
            try {
                if (side == Side::receiver) {
                    Receiver(mine, state, peers, peers.rank() - 1);
                    return;
                }
                PeerCommunicator senders(peers, all_senders());
                Sender(mine, state, peers, peers.rank() + 1, &senders);
            } catch (const Error& error) {
                lines[static_cast<std::size_t>(peers.rank())] = error.what();
            }
        });
        EXPECT_EQ(lines[2], lines[0]);
        EXPECT_EQ(lines[4], lines[0]);
        return lines[0];
    };
    EXPECT_EQ(told([](Settings&, EndState&) {}), "");
    EXPECT_EQ(told([](Settings& other, EndState&) { other.beta = 0.5; }),
              "replica 1 of the sender has beta 0.5 where replica 0 has 0.9; start all with the same");
    EXPECT_EQ(told([](Settings&, EndState& state) { state.a = first_subspace(4, 2, 2); }),
              "replica 1 of the sender has another subspace than replica 0; start all with the same");
    EXPECT_EQ(told([](Settings&, EndState& state) {
                  if (!state.m.empty())
                      state.m[3] = 0.25F;
              }),
              "replica 1 of the sender has another first moment than replica 0; start all with the same");
    EXPECT_EQ(told([](Settings&, EndState& state) { state.micro_batches = 5; }), "");
}

} // namespace
} // namespace truestep::distributed::mapl
