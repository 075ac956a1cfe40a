// Tests that each kind of exchange between threads brings the right data, in any waiting order.
#include <truestep/distributed/in_process.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchanges.hpp"

namespace truestep::distributed {
namespace {

using namespace std::chrono_literals;

using ::testing::ThrowsMessage;

class InProcess : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, InProcess, ::testing::Range(1, 9), ::testing::PrintToStringParamName());

TEST_P(InProcess, KnowsItsPlace) {
    std::vector<std::atomic<int>> seen(as_size(GetParam()));
    run_ranks(GetParam(), [&](Communicator& communicator) {
        EXPECT_EQ(communicator.size(), GetParam());
        EXPECT_EQ(communicator.name(), "in_process");
        ++seen.at(as_size(communicator.rank()));
    });
    for (const auto& count : seen)
        EXPECT_EQ(count, 1);
}

TEST_P(InProcess, AllToAllBringsEachPartToItsRank) {
    run_ranks(GetParam(), [](Communicator& communicator) {
        for (std::size_t round = 0; round < 20; ++round)
            AllToAll(communicator, round).wait();
    });
}

TEST_P(InProcess, APieceOfEachPartGoesToItsOwner) {
    run_ranks(GetParam(), [](Communicator& communicator) {
        ASSERT_TRUE(communicator.sends_pieces());
        std::vector<std::size_t> sizes;
        std::vector<std::byte> send;
        for (int owner = 0; owner < communicator.size(); ++owner) {
            sizes.push_back(owner == 1 ? 0 : 20 + as_size(owner));
            for (std::size_t at = 0; at < sizes.back(); ++at)
                send.push_back(value(communicator.rank(), owner, 0, at));
        }
        const std::size_t own = sizes[as_size(communicator.rank())];
        for (const Piece piece : {Piece{0, 7}, Piece{14, 7}, Piece{21, 7}, Piece{40, 7}, Piece{}}) {
            const std::size_t count = piece.size_in(own);
            std::vector<std::byte> receive(count * as_size(communicator.size()));
            communicator.start_all_to_owners(Traffic::payload, send.data(), sizes, piece, receive.data())
                ->wait();
            for (int peer = 0; peer < communicator.size(); ++peer)
                for (std::size_t at = 0; at < count; ++at)
                    ASSERT_EQ(receive[as_size(peer) * count + at],
                              value(peer, communicator.rank(), 0, piece.begin + at));
        }
    });
}

TEST_P(InProcess, AllGatherBringsEachPartToAll) {
    run_ranks(GetParam(), [](Communicator& communicator) {
        for (std::size_t round = 0; round < 20; ++round) {
            AllGather(communicator, round, false).wait();
            AllGather(communicator, round, true).wait();
        }
    });
}

TEST_P(InProcess, GathersRecords) {
    struct Record {
        int rank;
        double square;
    };
    run_ranks(GetParam(), [](Communicator& communicator) {
        const int rank = communicator.rank();
        const auto all = gather_records(communicator, Record{rank, static_cast<double>(rank) * rank});
        for (int peer = 0; peer < communicator.size(); ++peer) {
            EXPECT_EQ(all.at(as_size(peer)).rank, peer);
            EXPECT_EQ(all.at(as_size(peer)).square, static_cast<double>(peer) * peer);
        }
    });
}

/// Whole numbers, so that the sum is exact in any order; more of them than one block holds.
TEST_P(InProcess, ReduceScatterSums) {
    const int ranks = GetParam();
    run_ranks(ranks, [ranks](Communicator& communicator) {
        std::vector<std::size_t> sizes;
        sizes.reserve(as_size(ranks));
        for (int peer = 0; peer < ranks; ++peer)
            sizes.push_back(sizeof(float) * (peer == 1 ? 0 : 1500 + as_size(peer)));
        std::vector<float> send(std::reduce(sizes.begin(), sizes.end()) / sizeof(float));
        for (std::size_t i = 0; i < send.size(); ++i)
            send[i] = static_cast<float>(i * as_size(communicator.rank() + 1));
        const std::size_t mine = sizes.at(as_size(communicator.rank())) / sizeof(float);
        const std::size_t before =
            std::reduce(sizes.begin(), sizes.begin() + communicator.rank()) / sizeof(float);
        std::vector<float> receive(mine, NAN);
        communicator.start_reduce_scatter(Traffic::gradient, send.data(), receive.data(), sizes)->wait();
        for (std::size_t i = 0; i < mine; ++i)
            ASSERT_EQ(receive[i], static_cast<float>((before + i) * as_size(ranks * (ranks + 1) / 2)));
    });
}

TEST_P(InProcess, ManyInFlightAreWaitedForInAnotherOrder) {
    run_ranks(GetParam(), [](Communicator& communicator) {
        std::vector<std::unique_ptr<AllToAll>> exchanges;
        std::vector<std::unique_ptr<AllGather>> gathers;
        for (std::size_t round = 0; round < 32; ++round) {
            exchanges.push_back(std::make_unique<AllToAll>(communicator, round));
            gathers.push_back(std::make_unique<AllGather>(communicator, round, round % 2 == 0));
        }
        communicator.progress();
        for (std::size_t i = exchanges.size(); i-- > 0;)
            exchanges[i]->wait();
        for (std::size_t i = 0; i < gathers.size(); ++i)
            gathers[i * 5 % gathers.size()]->wait();
    });
}

/// Two blocking calls would deadlock here.
TEST_P(InProcess, RanksMayWaitInDifferentOrders) {
    run_ranks(
        GetParam(),
        [](Communicator& communicator) {
            for (std::size_t round = 0; round < 50; ++round) {
                AllToAll first(communicator, round);
                AllGather second(communicator, round, true);
                if ((as_size(communicator.rank()) + round) % 2 == 0) {
                    first.wait();
                    second.wait();
                } else {
                    second.wait();
                    first.wait();
                }
            }
        },
        20s);
}

/// The shape of a step: the mask that is started in one step is waited for in the next.
TEST_P(InProcess, AMaskTravelsFromOneStepToTheNext) {
    run_ranks(GetParam(), [](Communicator& communicator) {
        std::unique_ptr<AllGather> mask;
        for (std::size_t step = 0; step < 100; ++step) {
            if (mask)
                mask->wait();
            mask = std::make_unique<AllGather>(communicator, step, true);
            AllToAll(communicator, step).wait();
            AllGather(communicator, step, true, Traffic::moment).wait();
        }
        mask->wait();
    });
}

TEST_P(InProcess, StandsThousandsOfExchanges) {
    run_ranks(GetParam(), [](Communicator& communicator) {
        std::uint64_t sum = 0;
        for (std::uint64_t round = 0; round < 2000; ++round) {
            for (const std::uint64_t from :
                 gather_records(communicator, round * as_size(communicator.rank() + 1)))
                sum += from;
            if (round % 16 == as_size(communicator.rank()))
                std::this_thread::yield();
        }
        const auto ranks = as_size(communicator.size());
        EXPECT_EQ(sum, 2000U * 1999U / 2 * (ranks * (ranks + 1) / 2));
    });
}

TEST_P(InProcess, AbortEndsAllWithTheReason) {
    const int last = GetParam() - 1;
    std::atomic<int> aborted = 0;
    const auto step = [&](Communicator& communicator) {
        if (communicator.rank() == last)
            communicator.abort("the disk is full");
        try {
            AllToAll(communicator, 1).wait();
        } catch (const Aborted& error) {
            ++aborted;
            EXPECT_EQ(error.what(), "rank " + std::to_string(last) + ": the disk is full");
            EXPECT_THROW(AllToAll(communicator, 2), Aborted) << "no exchange starts any more";
            throw;
        }
    };
    EXPECT_THROW(run_ranks(GetParam(), step), Aborted);
    EXPECT_EQ(aborted, GetParam());
}

TEST_P(InProcess, TheCauseComesOutNotItsConsequences) {
    const int guilty = GetParam() / 2;
    const auto step = [&](Communicator& communicator) {
        AllToAll(communicator, 0).wait();
        AllGather mask(communicator, 0, true);
        if (communicator.rank() == guilty)
            throw std::out_of_range("a gradient of the wrong size");
        AllToAll(communicator, 1).wait();
        mask.wait();
    };
    // A rank that waited for the timeout would exceed ctest's own.
    EXPECT_THAT([&] { run_ranks(GetParam(), step, 24h); },
                ThrowsMessage<std::out_of_range>("a gradient of the wrong size"));
}

} // namespace
} // namespace truestep::distributed
