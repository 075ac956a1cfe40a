// Tests how ranks that are threads begin, stand many exchanges, and end; `truestep check exchange` tests
// what they bring.
#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/throws_on_all.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
        EXPECT_TRUE(communicator.sends_pieces());
        ++seen.at(as_size(communicator.rank()));
    });
    for (const auto& count : seen)
        EXPECT_EQ(count, 1);
}

TEST_P(InProcess, AnyExceptionOfTheLastRankIsToldToAll) {
    run_ranks(GetParam(), [](Communicator& communicator) {
        const bool last = communicator.rank() + 1 == communicator.size();
        try {
            throws_on_all(communicator, [&] {
                if (last)
                    throw std::out_of_range("no such key"); // which no check of ours has made
            });
            ADD_FAILURE() << "nothing was thrown on rank " << communicator.rank();
        } catch (const std::exception& error) {
            EXPECT_TRUE(std::string(error.what()).ends_with("no such key")) << error.what();
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
