// Tests ranks in groups: who handles what, gathers in two hops, and the exchanges of a few among
// many beneath them.
#include <truestep/distributed/levels.hpp>

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/counting.hpp>
#include <truestep/problem/error.hpp>

#include "exchanges.hpp"
#include "machine_groups.hpp"

namespace truestep::distributed {
namespace {

const std::vector<std::vector<int>> some_groups{{2, 2},    {3, 2, 1},    {1, 5},
                                                {1, 1, 4}, {4, 3, 2, 1}, {2, 2, 2, 2, 1}};

int ranks_of(const std::vector<int>& groups) {
    return std::reduce(groups.begin(), groups.end());
}

TEST(LevelsTest, EachGroupHasOneHandlerForEachOwner) {
    for (const auto& groups : some_groups) {
        const Levels levels(groups, 0);
        EXPECT_EQ(levels.ranks(), as_size(ranks_of(groups)));
        for (const Levels::Group& group : levels.groups()) {
            std::size_t next = 0;
            for (std::size_t j = 0; j < group.size; ++j) {
                const auto [begin, end] = levels.handled(group, j);
                EXPECT_EQ(begin, next) << "they follow each other";
                EXPECT_LT(begin, end) << "nobody is idle";
                for (std::size_t owner = begin; owner < end; ++owner)
                    EXPECT_EQ(levels.handler(group, owner), group.begin + j);
                next = end;
            }
            EXPECT_EQ(next, levels.ranks());
        }
    }
}

TEST(LevelsTest, EachRankKnowsItsGroup) {
    const std::vector<int> groups{3, 2, 1};
    const std::vector<std::size_t> begins{0, 0, 0, 3, 3, 5};
    for (int rank = 0; rank < 6; ++rank)
        EXPECT_EQ(Levels(groups, rank).own_group().begin, begins[as_size(rank)]);
    EXPECT_EQ(Levels(groups, 0).largest_group(), 3U);
}

/// A communicator that does not implement stretches.
class Copying final : public Communicator {
  public:
    explicit Copying(Communicator& inner, bool on_a_device = false) : inner_(inner), device_(on_a_device) {}
    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return "copying"; }
    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override {
        return inner_.start_all_to_all(traffic, send, send_sizes, receive, receive_sizes);
    }
    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override {
        return inner_.start_all_gather(traffic, send, receive, sizes);
    }
    std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send, float* receive,
                                                   Sizes sizes) override {
        return inner_.start_reduce_scatter(traffic, send, receive, sizes);
    }
    [[nodiscard]] bool host_can_read(Traffic) const override { return !device_; }
    void progress() override { inner_.progress(); }
    void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

  private:
    Communicator& inner_;
    bool device_;
};

/// Several gathers under way, some of which are relayed before they are waited for.
void gathers_arrive(Communicator& communicator) {
    for (std::size_t round = 0; round < 12; ++round) {
        AllGather first(communicator, round, round % 2 == 0);
        AllGather second(communicator, round + 1, round % 3 == 0, Traffic::moment);
        first.wait();
        second.wait();
    }
}

TEST(LevelsTest, AGatherByTwoHopsIsAGather) {
    for (const auto& groups : some_groups)
        for (const bool copying : {false, true})
            run_ranks(ranks_of(groups), [&](Communicator& inner) {
                Copying copies(inner);
                LevelsCommunicator communicator(copying ? copies : inner, groups);
                gathers_arrive(communicator);
                const auto all = gather_records(communicator, 7 * communicator.rank());
                for (int rank = 0; rank < communicator.size(); ++rank)
                    EXPECT_EQ(all[as_size(rank)], 7 * rank);
            });
}

TEST(LevelsTest, SoItIsWhereMessagesAreHeldBackAndLate) {
    Disturbance disturbance;
    disturbance.hold_back.fill(true);
    disturbance.late_start.fill(3);
    disturbance.newest_first = true;
    for (const auto& groups : some_groups)
        run_ranks(ranks_of(groups), [&](Communicator& inner) {
            CountingCommunicator disturbed(inner, disturbance);
            LevelsCommunicator communicator(disturbed, groups);
            gathers_arrive(communicator);
        });
}

TEST(LevelsTest, WhoGivesAGatherUpStartsNoSecondHop) {
    run_ranks(4, [](Communicator& inner) {
        CountingCommunicator counting(inner);
        LevelsCommunicator communicator(counting, std::vector<int>{2, 2});
        const std::vector<std::size_t> sizes(4, 8);
        const std::vector<std::byte> sent(8);
        std::vector<std::byte> received(32);
        const auto start = [&] {
            return communicator.start_all_gather(Traffic::mask, sent.data(), received.data(), sizes);
        };
        start()->settle();
        EXPECT_EQ(counting.exchanges(Traffic::mask), 1U);
        start()->wait();
        EXPECT_EQ(counting.exchanges(Traffic::mask), 3U);
    });
}

TEST(LevelsTest, TellsItsBytesAndHasAFewMessages) {
    for (const auto& groups : some_groups)
        run_ranks(ranks_of(groups), [&](Communicator& inner) {
            CountingCommunicator counting(inner);
            LevelsCommunicator communicator(counting, groups);
            std::vector<std::size_t> sizes;
            for (int rank = 0; rank < inner.size(); ++rank)
                sizes.push_back(8 + as_size(rank));
            std::vector<std::byte> received(std::reduce(sizes.begin(), sizes.end()));
            const std::vector<std::byte> sent(sizes[as_size(inner.rank())]);
            communicator.start_all_gather(Traffic::mask, sent.data(), received.data(), sizes)->wait();
            EXPECT_EQ(counting.bytes(Traffic::mask), communicator.sent_by_gather(sizes));
            const Levels& levels = communicator.levels();
            const std::uint64_t messages = counting.messages()[static_cast<std::size_t>(Traffic::mask)];
            EXPECT_LE(messages, levels.groups().size() + levels.own_group().size - 1);
            EXPECT_GE(messages, levels.groups().size() + levels.own_group().size - 2);
        });
}

TEST(LevelsTest, AFewExchangeAmongMany) {
    constexpr int ranks = 5;
    run_ranks(ranks, [](Communicator& communicator) {
        // Each sends the same three bytes to the next two; the last one has no part in it.
        const int me = communicator.rank();
        const auto is_sent = [](int from, int to) {
            return from < 4 && to < 4 && ((to - from + 4) % 4 == 1 || (to - from + 4) % 4 == 2);
        };
        std::vector<Stretch> to(ranks);
        std::vector<Stretch> from(ranks);
        for (int peer = 0; peer < ranks; ++peer) {
            if (is_sent(me, peer))
                to[as_size(peer)] = {2, 3};
            if (is_sent(peer, me))
                from[as_size(peer)] = {as_size(peer) * 4, 3};
        }
        std::vector<std::byte> send;
        for (std::size_t at = 0; at < 8; ++at)
            send.push_back(value(me, 0, 0, at));
        Copying copies(communicator);
        for (Communicator* each : std::vector<Communicator*>{&communicator, &copies}) {
            std::vector<std::byte> receive(4 * ranks, std::byte{0xEE});
            CountingCommunicator counting(*each);
            counting.start_stretches(Traffic::payload, send.data(), to, receive.data(), from)->wait();
            EXPECT_EQ(counting.messages()[static_cast<std::size_t>(Traffic::payload)], me < 4 ? 2U : 0U);
            EXPECT_EQ(counting.bytes(Traffic::payload), me < 4 ? 6U : 0U);
            for (int peer = 0; peer < ranks; ++peer)
                for (std::size_t at = 0; at < 4; ++at)
                    EXPECT_EQ(receive[as_size(peer) * 4 + at],
                              is_sent(peer, me) && at < 3 ? value(peer, 0, 0, at + 2) : std::byte{0xEE});
        }
    });
}

TEST(MachineGroupsTest, AreTheRanksThatFollowEachOtherOnAMachine) {
    EXPECT_EQ(groups_of_machines({0, 0, 0, 3, 3, 5}), (std::vector<int>{3, 2, 1}));
    EXPECT_EQ(groups_of_machines({0}), std::vector<int>{1});
    EXPECT_THAT(
        [] {
            static_cast<void>(groups_of_machines({0, 1, 0, 1}));
        },
        testing::ThrowsMessage<Error>(
            "rank 2 is on the machine of rank 0, rank 1 is not; start the ranks of a machine one after "
            "another, or give groups"));
}

TEST(LevelsTest, WhatStandsOnADeviceIsNotCopiedByTheHost) {
    run_ranks(1, [](Communicator& communicator) {
        Copying copies(communicator, true);
        const std::vector<Stretch> one(1);
        EXPECT_THAT(
            [&] {
                static_cast<void>(copies.start_stretches(Traffic::payload, nullptr, one, nullptr, one));
            },
            testing::ThrowsMessage<Error>(testing::HasSubstr("leave the setting groups out")));
    });
}

} // namespace
} // namespace truestep::distributed
