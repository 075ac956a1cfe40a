#include <scape/distributed/in_process.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scape::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::size_t as_size(int value) {
    return static_cast<std::size_t>(value);
}

/// Uneven, with empty parts, and different for each pair and round.
std::size_t part_size(int from, int to, std::size_t round) {
    const std::size_t mixed = as_size(from) * 7 + as_size(to) * 13 + round * 5;
    return mixed % 3 == 0 ? 0 : mixed % 29;
}

std::byte value(int from, int to, std::size_t round, std::size_t at) {
    return static_cast<std::byte>(as_size(from) * 31 + as_size(to) * 17 + round * 101 + at);
}

/// One all-to-all with its buffers, whose answer each rank knows without communication.
class AllToAll {
  public:
    AllToAll(Communicator& communicator, std::size_t round) : rank_(communicator.rank()), round_(round) {
        for (int peer = 0; peer < communicator.size(); ++peer) {
            send_sizes_.push_back(part_size(rank_, peer, round));
            receive_sizes_.push_back(part_size(peer, rank_, round));
            for (std::size_t at = 0; at < send_sizes_.back(); ++at)
                send_.push_back(value(rank_, peer, round, at));
        }
        receive_.resize(std::reduce(receive_sizes_.begin(), receive_sizes_.end()));
        exchange_ = communicator.start_all_to_all(Traffic::payload, send_.data(), send_sizes_,
                                                  receive_.data(), receive_sizes_);
    }

    void wait() {
        exchange_->wait();
        std::ranges::fill(send_, std::byte{0xEE}); // from now on the sent buffer is ours
        std::size_t begin = 0;
        for (int peer = 0; peer < static_cast<int>(receive_sizes_.size()); ++peer) {
            const std::size_t size = receive_sizes_[as_size(peer)];
            for (std::size_t at = 0; at < size; ++at)
                ASSERT_EQ(receive_[begin + at], value(peer, rank_, round_, at))
                    << "from " << peer << " to " << rank_;
            begin += size;
        }
    }

  private:
    int rank_;
    std::size_t round_;
    std::vector<std::size_t> send_sizes_;
    std::vector<std::size_t> receive_sizes_;
    std::vector<std::byte> send_;
    std::vector<std::byte> receive_;
    std::unique_ptr<Exchange> exchange_;
};

class AllGather {
  public:
    AllGather(Communicator& communicator, std::size_t round, bool in_place, Traffic traffic = Traffic::mask)
        : round_(round) {
        const int rank = communicator.rank();
        for (int peer = 0; peer < communicator.size(); ++peer)
            sizes_.push_back(part_size(peer, 0, round));
        receive_.resize(std::reduce(sizes_.begin(), sizes_.end()));
        const std::size_t before = std::reduce(sizes_.begin(), sizes_.begin() + rank);
        if (!in_place)
            send_.resize(sizes_[as_size(rank)]);
        std::byte* const own = in_place ? receive_.data() + before : send_.data();
        for (std::size_t at = 0; at < sizes_[as_size(rank)]; ++at)
            own[at] = value(rank, 0, round, at);
        exchange_ = communicator.start_all_gather(traffic, own, receive_.data(), sizes_);
    }

    void wait() {
        exchange_->wait();
        std::size_t begin = 0;
        for (int peer = 0; peer < static_cast<int>(sizes_.size()); ++peer) {
            for (std::size_t at = 0; at < sizes_[as_size(peer)]; ++at)
                ASSERT_EQ(receive_[begin + at], value(peer, 0, round_, at)) << "from " << peer;
            begin += sizes_[as_size(peer)];
        }
    }

  private:
    std::size_t round_;
    std::vector<std::size_t> sizes_;
    std::vector<std::byte> send_;
    std::vector<std::byte> receive_;
    std::unique_ptr<Exchange> exchange_;
};

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

/// Whole numbers, so that the sum is exact in any order; more of them than fit in one block.
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

/// Where two blocking calls would lock each other for ever.
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
    const auto begin = std::chrono::steady_clock::now();
    const auto step = [&](Communicator& communicator) {
        AllToAll(communicator, 0).wait();
        AllGather mask(communicator, 0, true);
        if (communicator.rank() == guilty)
            throw std::out_of_range("a gradient of the wrong size");
        AllToAll(communicator, 1).wait();
        mask.wait();
    };
    EXPECT_THAT([&] { run_ranks(GetParam(), step); },
                ThrowsMessage<std::out_of_range>("a gradient of the wrong size"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s) << "without waiting for the timeout";
}

TEST(InProcessFaults, AHangingRankIsNamed) {
    std::atomic<bool> over = false;
    std::atomic<int> named = 0;
    const auto step = [&](Communicator& communicator) {
        AllGather mask(communicator, 0, true);
        if (communicator.rank() == 2) {
            while (!over)
                std::this_thread::sleep_for(1ms);
            return;
        }
        try {
            if (communicator.rank() == 0)
                mask.wait(); // waits until rank 2 takes it
            AllToAll(communicator, 0).wait();
        } catch (const Aborted& error) {
            EXPECT_THAT(error.what(),
                        AllOf(HasSubstr("rank 2 did not answer within 0.2 s in a"), HasSubstr("exchange")));
            if (++named == 3)
                over = true;
            throw;
        }
    };
    EXPECT_THROW(run_ranks(4, step, 200ms), Aborted);
    EXPECT_EQ(named, 3);
}

TEST(InProcessFaults, AllHangingRanksAreNamed) {
    std::atomic<bool> over = false;
    const auto step = [&](Communicator& communicator) {
        if (communicator.rank() % 2 == 1) {
            while (!over)
                std::this_thread::sleep_for(1ms);
            return;
        }
        try {
            AllGather(communicator, 1, true, Traffic::agreement).wait();
        } catch (const Aborted& error) {
            EXPECT_STREQ(error.what(),
                         "ranks 1, 3 and 5 did not answer within 0.1 s in an agreement exchange");
            over = true;
            throw;
        }
    };
    EXPECT_THROW(run_ranks(6, step, 100ms), Aborted);
}

TEST(InProcessFaults, ARankThatHasLeftIsNamedAtOnce) {
    const auto step = [](Communicator& communicator) {
        if (communicator.rank() != 1)
            AllToAll(communicator, 0).wait();
    };
    EXPECT_THAT([&] { run_ranks(3, step); },
                ThrowsMessage<Aborted>("rank 1 left before a payload exchange"));
}

TEST(InProcessFaults, ALostExchangeIsABug) {
    const auto step = [](Communicator& communicator) {
        auto mask = std::make_unique<AllGather>(communicator, 0, true);
        if (communicator.rank() != 0)
            mask->wait();
        mask.reset();
        AllToAll(communicator, 1).wait();
    };
    EXPECT_THAT([&] { run_ranks(3, step); },
                ThrowsMessage<Aborted>("rank 0: a mask exchange was never waited for"));
}

TEST(InProcessFaults, OtherExchangesOrSizesAreRefused) {
    const auto mixed = [](Communicator& communicator) {
        if (communicator.rank() == 0)
            AllToAll(communicator, 0).wait();
        else
            AllGather(communicator, 0, true).wait();
    };
    EXPECT_THAT([&] { run_ranks(2, mixed); },
                ThrowsMessage<Aborted>(AllOf(HasSubstr("a payload exchange (all-to-all)"),
                                             HasSubstr("a mask exchange (all-gather)"))));
    const auto uneven = [](Communicator& communicator) {
        std::vector<std::byte> receive(64);
        const std::vector<std::size_t> sizes(2, communicator.rank() == 0 ? 4 : 8);
        communicator.start_all_gather(Traffic::mask, receive.data(), receive.data(), sizes)->wait();
    };
    EXPECT_THAT([&] { run_ranks(2, uneven); },
                ThrowsMessage<Aborted>(
                    AllOf(HasSubstr("sends"), HasSubstr("awaits"), HasSubstr("a mask exchange"))));
}

/// The peers of a rank that fails may be copying from its buffers at that very moment.
TEST(InProcessFaults, FailuresAtAnyMomentLeaveNoReaderBehind) {
    for (std::size_t round = 0; round < 200; ++round) {
        const auto step = [round](Communicator& communicator) {
            const std::vector<std::size_t> sizes(as_size(communicator.size()), 20'000);
            const std::vector<std::byte> send(sizes.size() * 20'000, std::byte{1});
            std::vector<std::byte> receive(send.size());
            for (std::size_t exchange = 0; exchange < 3; ++exchange) {
                const auto pending = communicator.start_all_to_all(Traffic::payload, send.data(), sizes,
                                                                   receive.data(), sizes);
                if (exchange == 1 && communicator.rank() == static_cast<int>(round % sizes.size()))
                    throw std::runtime_error("failed");
                pending->wait();
            }
        };
        EXPECT_THROW(run_ranks(3, step), std::runtime_error);
    }
}

TEST(InProcessFaults, WrongUseIsRefused) {
    EXPECT_THROW(InProcessGroup(0), std::invalid_argument);
    InProcessGroup group(2);
    EXPECT_THROW((void)group.communicator(2), std::invalid_argument);
    const auto communicator = group.communicator(0);
    EXPECT_THROW((void)group.communicator(0), std::logic_error);
    std::vector<std::byte> bytes(8);
    const std::vector<std::size_t> sizes(3, 1);
    EXPECT_THROW((void)communicator->start_all_gather(Traffic::mask, bytes.data(), bytes.data(), sizes),
                 std::invalid_argument);
}

} // namespace
} // namespace scape::distributed
