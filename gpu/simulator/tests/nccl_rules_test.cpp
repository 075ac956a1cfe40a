// Each violation of an NCCL rule is found, and reported with its rank.
#include "nccl_support.hpp"
#include "small.hpp"

namespace truestep::simulator::tests {
namespace {

TEST_F(Nccl, AGroupLeftOpenIsFoundWhereItsThreadWaitsOrAborts) {
    const auto open = [](Rank& own) {
        static_cast<void>(ncclGroupStart());
        static_cast<void>(ncclSend(own.send, 4, ncclFloat32, 1 - own.rank, own.comm, own.stream));
    };
    EXPECT_THAT(with(2,
                     [&](Rank& own) {
                         open(own);
                         EXPECT_NE(cudaStreamSynchronize(own.stream), cudaSuccess);
                         static_cast<void>(ncclGroupEnd());
                     }),
                HasSubstr("a thread waits for a stream with a group left open"));
    EXPECT_THAT(with(2,
                     [&](Rank& own) {
                         open(own);
                         static_cast<void>(ncclCommAbort(std::exchange(own.comm, nullptr)));
                         static_cast<void>(ncclGroupEnd());
                     }),
                HasSubstr("ncclCommAbort with a group left open"));
    EXPECT_THAT(with(1, [](Rank&) { EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage); }),
                HasSubstr("ncclGroupEnd without ncclGroupStart"));
}

TEST_F(Nccl, AnErrorInAGroupIsToldAgainAtItsEndAndNothingBegins) {
    EXPECT_EQ(with(1,
                   [](Rank& own) {
                       static_cast<void>(ncclGroupStart());
                       EXPECT_EQ(ncclSend(own.send, 4, ncclFloat32, 0, own.comm, own.stream), ncclSuccess);
                       EXPECT_EQ(ncclRecv(own.receive, 4, ncclFloat32, 9, own.comm, own.stream),
                                 ncclInvalidArgument);
                       EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
                       EXPECT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
                   }),
              "");
}

/// The report on two ranks whose calls do not fit: by rank 0, and by rank 1.
std::string of_two(const std::function<void(Rank&)>& first, const std::function<void(Rank&)>& second,
                   const std::function<std::string(const std::function<void(Rank&)>&)>& with_two) {
    return with_two([&](Rank& own) {
        (own.rank == 0 ? first : second)(own);
        static_cast<void>(own.settled());
        static_cast<void>(cudaStreamSynchronize(own.stream));
    });
}

TEST_F(Nccl, CallsThatDoNotFitAreFound) {
    const auto two = [&](const std::function<void(Rank&)>& work) { return with(2, work); };
    const auto gather = [](std::size_t values, ncclDataType_t type) {
        return [=](Rank& own) {
            static_cast<void>(ncclAllGather(own.send, own.receive, values, type, own.comm, own.stream));
        };
    };
    const auto root = [](int of) {
        return [=](Rank& own) {
            static_cast<void>(
                ncclBroadcast(own.send, own.receive, 4, ncclFloat32, of, own.comm, own.stream));
        };
    };
    const auto sum = [](ncclRedOp_t operation) {
        return [=](Rank& own) {
            static_cast<void>(
                ncclAllReduce(own.send, own.receive, 4, ncclFloat32, operation, own.comm, own.stream));
        };
    };
    const auto send = [](Rank& own) {
        static_cast<void>(ncclSend(own.send, 4, ncclFloat32, 1, own.comm, own.stream));
    };
    const auto receive = [](Rank& own) {
        static_cast<void>(ncclRecv(own.receive, 5, ncclFloat32, 0, own.comm, own.stream));
    };
    EXPECT_THAT(
        of_two(gather(4, ncclFloat32), gather(5, ncclFloat32), two),
        AllOf(HasSubstr("do not fit"), HasSubstr("all-gather 0 of 4"), HasSubstr("all-gather 0 of 5")));
    EXPECT_THAT(of_two(gather(4, ncclFloat32), gather(4, ncclInt32), two), HasSubstr("do not fit"));
    EXPECT_THAT(of_two(gather(4, ncclFloat32), root(0), two),
                AllOf(HasSubstr("rank 0 has all-gather 0"), HasSubstr("rank 1 has broadcast 0")));
    EXPECT_THAT(of_two(root(0), root(1), two), HasSubstr("do not fit"));
    EXPECT_THAT(of_two(sum(ncclSum), sum(ncclMax), two), HasSubstr("do not fit"));
    EXPECT_THAT(of_two(send, receive, two),
                AllOf(HasSubstr("send 0 to rank 1 of 4"), HasSubstr("receive 0 from rank 0 of 5")));
}

TEST_F(Nccl, MessagesWithoutAGroupWaitForEachOtherForEver) {
    EXPECT_THAT(
        with(2,
             [](Rank& own) {
                 static_cast<void>(ncclSend(own.send, 4, ncclFloat32, 1 - own.rank, own.comm, own.stream));
                 static_cast<void>(own.settled());
                 static_cast<void>(
                     ncclRecv(own.receive, 4, ncclFloat32, 1 - own.rank, own.comm, own.stream));
                 static_cast<void>(own.settled());
                 EXPECT_EQ(cudaStreamSynchronize(own.stream), cudaErrorLaunchTimeout);
             }),
        AllOf(HasSubstr("rank 0 waits in send 0 to rank 1"), HasSubstr("whose stream has not come to it")));
}

/// A broadcast of two ranks, one of which is late, while rank 0 does `meanwhile` on another stream.
std::string during(const std::function<std::string(const std::function<void(Rank&)>&)>& with_two,
                   const std::function<void(Rank&)>& meanwhile) {
    std::atomic<bool> go_on = false;
    return with_two([&](Rank& own) {
        if (own.rank == 1)
            while (!go_on)
                std::this_thread::yield();
        static_cast<void>(ncclAllGather(own.send, own.receive, count, ncclFloat32, own.comm, own.stream));
        static_cast<void>(own.settled());
        if (own.rank == 0) {
            static_cast<void>(cudaStreamQuery(own.stream)); // the device begins it
            static_cast<void>(cudaStreamQuery(own.stream));
            meanwhile(own);
            static_cast<void>(cudaStreamSynchronize(own.beside));
            go_on = true;
        }
        static_cast<void>(cudaStreamSynchronize(own.stream));
    });
}

TEST_F(Nccl, BuffersInFlightAreNobodysToTouch) {
    const auto two = [&](const std::function<void(Rank&)>& work) { return with(2, work); };
    const auto flight = HasSubstr("in flight, which rank 0's all-gather 0");
    EXPECT_THAT(
        during(two, [](Rank& own) { start_add_one(reinterpret_cast<int*>(own.send), count, own.beside); }),
        AllOf(HasSubstr("a write to memory"), flight, HasSubstr("small.cu:")));
    EXPECT_THAT(during(two,
                       [](Rank& own) {
                           static_cast<void>(cudaMemsetAsync(own.receive + count, 0, 4, own.beside));
                       }),
                AllOf(HasSubstr("a fill of 4 bytes"), flight));
    EXPECT_THAT(during(two,
                       [](Rank& own) {
                           float host = 0.0F;
                           static_cast<void>(
                               cudaMemcpyAsync(&host, own.receive, 4, cudaMemcpyDefault, own.beside));
                       }),
                AllOf(HasSubstr("the source of a copy"), flight));
    // Memory that is only being sent may be read.
    EXPECT_EQ(during(two,
                     [](Rank& own) {
                         float host = 0.0F;
                         static_cast<void>(
                             cudaMemcpyAsync(&host, own.send, 4, cudaMemcpyDefault, own.beside));
                     }),
              "");
}

TEST_F(Nccl, WhatNobodyHasWrittenIsNotSent) {
    EXPECT_THAT(with(1,
                     [](Rank& own) {
                         static_cast<void>(ncclAllGather(own.receive, own.receive + 9, 4, ncclFloat32,
                                                         own.comm, own.stream));
                         static_cast<void>(own.settled());
                         static_cast<void>(cudaStreamSynchronize(own.stream));
                     }),
                HasSubstr("uninitialized memory"));
}

TEST_F(Nccl, NothingIsAskedOfACommunicatorInProgress) {
    ncclUniqueId id{};
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_THAT(with(1,
                     [&](Rank& own) {
                         ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                         config.blocking = 0;
                         ncclComm_t half = nullptr;
                         EXPECT_EQ(ncclCommInitRankConfig(&half, 2, id, 0, &config), ncclInProgress);
                         static_cast<void>(ncclSend(own.send, 1, ncclFloat32, 1, half, own.stream));
                         static_cast<void>(ncclCommAbort(half));
                     }),
                HasSubstr("ncclCommGetAsyncError has not said ncclSuccess"));
}

TEST_F(Nccl, ACommunicatorThatIsGoneIsFound) {
    for (const bool abort : {true, false})
        EXPECT_THAT(with(1,
                         [&](Rank& own) {
                             ncclComm_t gone = std::exchange(own.comm, nullptr);
                             EXPECT_EQ(abort ? ncclCommAbort(gone) : ncclCommDestroy(gone), ncclSuccess);
                             EXPECT_EQ(ncclSend(own.send, 1, ncclFloat32, 0, gone, own.stream),
                                       ncclInvalidUsage);
                         }),
                    HasSubstr(abort ? "after ncclCommAbort" : "after ncclCommDestroy"));
    EXPECT_THAT(with(1,
                     [](Rank& own) {
                         EXPECT_EQ(ncclCommFinalize(own.comm), ncclInProgress);
                         static_cast<void>(ncclSend(own.send, 1, ncclFloat32, 0, own.comm, own.stream));
                     }),
                HasSubstr("after ncclCommFinalize"));
}

TEST_F(Nccl, ARankThatNeverComesIsNamed) {
    EXPECT_THAT(with(3,
                     [](Rank& own) {
                         if (own.rank == 1)
                             return;
                         static_cast<void>(
                             ncclAllGather(own.send, own.receive, 4, ncclFloat32, own.comm, own.stream));
                         static_cast<void>(own.settled());
                         EXPECT_EQ(cudaStreamSynchronize(own.stream), cudaErrorLaunchTimeout);
                     }),
                AllOf(HasSubstr("all-gather 0 of 4 ncclFloat32 for rank 1, which has"),
                      HasSubstr("a stream has waited for 1500 ms")));
}

TEST_F(Nccl, WhoeverNeverJoinsIsNamed) {
    ncclUniqueId id{};
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 3, id, 1), ncclSystemError);
    EXPECT_THAT(ncclGetErrorString(ncclSystemError), HasSubstr("not there: rank 0, rank 2"));
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST_F(Nccl, TwoRanksOfOneDeviceCannotJoin) {
    ncclUniqueId id{};
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::array<ncclComm_t, 2> comms{};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    for (int rank = 0; rank < 2; ++rank)
        EXPECT_EQ(ncclCommInitRankConfig(&comms.at(static_cast<std::size_t>(rank)), 2, id, rank, &config),
                  ncclInProgress);
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comms[0], &state), ncclSuccess);
    EXPECT_EQ(state, ncclInvalidUsage);
    EXPECT_THAT(ncclGetErrorString(state), HasSubstr("the same device"));
    for (ncclComm_t comm : comms)
        EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST_F(Nccl, AKernelDoesNotReachAnotherDevicesMemory) {
    std::array<int*, 2> places{};
    std::atomic<int> there = 0;
    EXPECT_THAT(with(2,
                     [&](Rank& own) {
                         places.at(static_cast<std::size_t>(own.rank)) = reinterpret_cast<int*>(own.send);
                         meet(there, 2);
                         if (own.rank == 1) {
                             start_add_one(places[0], count, own.stream);
                             static_cast<void>(cudaStreamSynchronize(own.stream));
                         }
                     }),
                HasSubstr("memory of device 0 in a kernel on device 1"));
}

} // namespace
} // namespace truestep::simulator::tests
