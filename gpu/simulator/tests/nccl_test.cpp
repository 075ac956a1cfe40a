// What each NCCL function does over simulated devices.
#include "nccl_support.hpp"

namespace truestep::simulator::tests {
namespace {

TEST_F(Nccl, AllGatherPutsAllPartsInTheOrderOfRanks) {
    for (const int ranks : {1, 2, 8})
        EXPECT_EQ(with(ranks,
                       [](Rank& own) {
                           EXPECT_EQ(ncclAllGather(own.send, own.receive, count, ncclFloat32, own.comm,
                                                   own.stream),
                                     ncclInProgress);
                           EXPECT_EQ(own.settled(), ncclSuccess);
                           const auto all = own.received(own.ranks * count);
                           for (int i = 0; i < own.ranks * count; ++i)
                               EXPECT_EQ(all[static_cast<std::size_t>(i)], value(i / count, i % count));
                       }),
                  "");
}

TEST_F(Nccl, BroadcastGivesTheRootsValues) {
    EXPECT_EQ(with(3,
                   [](Rank& own) {
                       static_cast<void>(
                           ncclBroadcast(own.send, own.receive, 5, ncclFloat32, 2, own.comm, own.stream));
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       EXPECT_EQ(own.received(5)[4], value(2, 4));
                   }),
              "");
}

TEST_F(Nccl, ReductionsAddWhatAllHaveAndGiveItToWhomTheyShall) {
    EXPECT_EQ(with(4,
                   [](Rank& own) {
                       EXPECT_EQ(ncclReduce(own.send, own.receive, 7, ncclFloat32, ncclSum, 1, own.comm,
                                            own.stream),
                                 ncclInProgress);
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       if (own.rank == 1) {
                           EXPECT_EQ(own.received(7)[3], 600 + 4 * 3);
                       }
                       EXPECT_EQ(ncclReduceScatter(own.send, own.receive, 24, ncclFloat32, ncclMax,
                                                   own.comm, own.stream),
                                 ncclInProgress);
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       EXPECT_EQ(own.received(24)[5], value(3, 24 * own.rank + 5));
                       EXPECT_EQ(ncclAllReduce(own.send, own.receive, 9, ncclFloat32, ncclAvg, own.comm,
                                               own.stream),
                                 ncclInProgress);
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       EXPECT_EQ(own.received(9)[2], 152);
                   }),
              "");
}

TEST_F(Nccl, TheOrderOfAddingIsNobodysToKnow) {
    std::vector<float> sums;
    for (std::uint64_t seed = 1; seed <= 64; ++seed)
        EXPECT_EQ(with(
                      3,
                      [&](Rank& own) {
                          constexpr std::array values{1e8F, -1e8F, 1.0F};
                          const float mine = values.at(static_cast<std::size_t>(own.rank));
                          static_cast<void>(
                              cudaMemcpyAsync(own.send, &mine, sizeof mine, cudaMemcpyDefault, own.stream));
                          static_cast<void>(ncclReduce(own.send, own.receive, 1, ncclFloat32, ncclSum, 0,
                                                       own.comm, own.stream));
                          EXPECT_EQ(own.settled(), ncclSuccess);
                          if (own.rank == 0)
                              sums.push_back(own.received(1)[0]);
                          else
                              EXPECT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
                      },
                      false, seed),
                  "");
    EXPECT_THAT(sums, testing::Contains(1.0F));
    EXPECT_THAT(sums, testing::Contains(0.0F));
}

TEST_F(Nccl, AGroupOfMessagesGoesBothWays) {
    EXPECT_EQ(with(2,
                   [](Rank& own) {
                       EXPECT_EQ(ncclGroupStart(), ncclSuccess);
                       EXPECT_EQ(ncclSend(own.send, 4, ncclFloat32, 1 - own.rank, own.comm, own.stream),
                                 ncclSuccess);
                       EXPECT_EQ(ncclRecv(own.receive, 4, ncclFloat32, 1 - own.rank, own.comm, own.stream),
                                 ncclSuccess);
                       EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       EXPECT_EQ(own.received(4)[1], value(1 - own.rank, 1));
                   }),
              "");
}

TEST_F(Nccl, ASplitGivesCommunicatorsByColorAndKey) {
    EXPECT_EQ(with(4,
                   [](Rank& own) {
                       ncclComm_t half = nullptr;
                       EXPECT_EQ(ncclCommSplit(own.comm, own.rank % 2, -own.rank, &half, nullptr),
                                 ncclInProgress);
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       EXPECT_EQ(own.settled(half), ncclSuccess);
                       int ranks = 0;
                       int rank = 0;
                       EXPECT_EQ(ncclCommCount(half, &ranks), ncclSuccess);
                       EXPECT_EQ(ncclCommUserRank(half, &rank), ncclSuccess);
                       EXPECT_EQ(ranks, 2);
                       EXPECT_EQ(rank, own.rank < 2 ? 1 : 0);
                       static_cast<void>(
                           ncclAllGather(own.send, own.receive, 1, ncclFloat32, half, own.stream));
                       EXPECT_EQ(own.settled(half), ncclSuccess);
                       EXPECT_EQ(own.received(2)[1], value(own.rank % 2, 0));
                       EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
                   }),
              "");
}

TEST_F(Nccl, BlockingCommunicatorsJoinBeginAndEndWithoutBeingAsked) {
    EXPECT_EQ(with(
                  2,
                  [](Rank& own) {
                      EXPECT_EQ(
                          ncclBroadcast(own.send, own.receive, 5, ncclFloat32, 0, own.comm, own.stream),
                          ncclSuccess);
                      EXPECT_EQ(own.received(5)[1], value(0, 1));
                      EXPECT_EQ(ncclCommFinalize(own.comm), ncclSuccess);
                      EXPECT_EQ(ncclCommDestroy(std::exchange(own.comm, nullptr)), ncclSuccess);
                  },
                  true),
              "");
}

TEST_F(Nccl, FinalizeWaitsForWhatIsUnderWayAndForAllRanks) {
    EXPECT_EQ(with(2,
                   [](Rank& own) {
                       static_cast<void>(
                           ncclBroadcast(own.send, own.receive, 5, ncclFloat32, 0, own.comm, own.stream));
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       EXPECT_EQ(ncclCommFinalize(own.comm), ncclInProgress);
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       EXPECT_EQ(ncclCommDestroy(std::exchange(own.comm, nullptr)), ncclSuccess);
                   }),
              "");
}

TEST_F(Nccl, SaysItsVersionAndItsErrors) {
    int version = 0;
    EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
    EXPECT_EQ(version, NCCL_VERSION_CODE);
    EXPECT_THAT(ncclGetErrorString(ncclSuccess), HasSubstr("no error"));
    EXPECT_EQ(ncclSend(nullptr, 1, ncclUint8, 0, nullptr, nullptr), ncclInvalidArgument);
    EXPECT_THAT(ncclGetErrorString(ncclInvalidArgument),
                AllOf(HasSubstr("invalid argument"), HasSubstr("ncclSend of no communicator")));
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("ncclSend of no communicator"));
}

TEST_F(Nccl, WhatARankAloneCanSeeIsAnInvalidArgumentAndEndsNobody) {
    EXPECT_EQ(
        with(2,
             [](Rank& own) {
                 float host = 0.0F;
                 const auto invalid = [&](ncclResult_t said, const char* why) {
                     EXPECT_EQ(said, ncclInvalidArgument);
                     EXPECT_THAT(ncclGetErrorString(said), HasSubstr(why));
                 };
                 invalid(ncclSend(own.send, 1, ncclFloat32, 2, own.comm, own.stream), "no rank 2");
                 invalid(ncclRecv(&host, 1, ncclFloat32, 0, own.comm, own.stream), "not device memory");
                 invalid(ncclAllGather(own.receive + 1, own.receive, 3, ncclFloat32, own.comm, own.stream),
                         "overlap");
                 invalid(ncclSend(own.send, 1, ncclNumTypes, 1, own.comm, own.stream), "type");
                 cudaStream_t foreign = nullptr;
                 EXPECT_EQ(cudaSetDevice(7), cudaSuccess);
                 EXPECT_EQ(cudaStreamCreate(&foreign), cudaSuccess);
                 EXPECT_EQ(cudaSetDevice(own.rank), cudaSuccess);
                 invalid(ncclSend(own.send, 1, ncclFloat32, 1, own.comm, foreign), "a stream of device 7");
                 EXPECT_EQ(cudaStreamDestroy(foreign), cudaSuccess);
             }),
        "");
}

TEST_F(Nccl, InPlaceIsAllowed) {
    EXPECT_EQ(with(2,
                   [](Rank& own) {
                       float* const part = own.receive + own.rank * 8;
                       EXPECT_EQ(cudaMemsetAsync(part, 0, 32, own.stream), cudaSuccess);
                       static_cast<void>(
                           ncclAllGather(part, own.receive, 8, ncclFloat32, own.comm, own.stream));
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       EXPECT_EQ(own.received(16)[15], 0.0F);
                   }),
              "");
}

} // namespace
} // namespace truestep::simulator::tests
