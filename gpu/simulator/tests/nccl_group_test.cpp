// The Group of gpu/nccl_device_slots.hpp over the simulated NCCL, which detects a group that is left open.
#include "nccl_support.hpp"

#include <stdexcept>

#include "nccl_device_slots.hpp"

namespace truestep::simulator::tests {
namespace {

using gpu::nccl::Group;

void send_to_the_other(Group& group, Rank& own) {
    group.tell(ncclSend(own.send, 4, ncclFloat32, 1 - own.rank, own.comm, own.stream), "sending");
}

void receive_from_the_other(Group& group, Rank& own) {
    group.tell(ncclRecv(own.receive, 4, ncclFloat32, 1 - own.rank, own.comm, own.stream), "receiving");
}

/// After that the rank can end its communicator and wait for its stream; an open group allows
/// neither.
TEST_F(Nccl, AGroupOfOursIsEndedByWorkThatThrowsWithinIt) {
    EXPECT_EQ(with(2,
                   [](Rank& own) {
                       const auto work = [&own] {
                           Group group;
                           send_to_the_other(group, own);
                           receive_from_the_other(group, own);
                           throw std::runtime_error("out of luck");
                       };
                       EXPECT_THAT(work, testing::ThrowsMessage<std::runtime_error>("out of luck"));
                       EXPECT_EQ(own.settled(), ncclSuccess);
                       EXPECT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
                       EXPECT_EQ(own.received(1).front(), value(1 - own.rank, 0));
                       EXPECT_EQ(ncclCommAbort(std::exchange(own.comm, nullptr)), ncclSuccess);
                   }),
              "");
}

/// A call that has begun in the group, and never finds its other half, ends with the communicator.
TEST_F(Nccl, AGroupOfOursThatThrewHalfwayLetsTheCommunicatorBeAborted) {
    EXPECT_EQ(with(2,
                   [](Rank& own) {
                       const auto work = [&own] {
                           Group group;
                           receive_from_the_other(group, own);
                           throw std::runtime_error("out of luck");
                       };
                       EXPECT_THROW(work(), std::runtime_error);
                       EXPECT_EQ(ncclCommAbort(std::exchange(own.comm, nullptr)), ncclSuccess);
                   }),
              "");
}

TEST_F(Nccl, AGroupOfOursTellsWhatFailedFirstWhenItHasEnded) {
    EXPECT_EQ(with(1,
                   [](Rank& own) {
                       Group group;
                       group.tell(ncclRecv(own.receive, 4, ncclFloat32, 9, own.comm, own.stream),
                                  "asking for what nobody has");
                       group.tell(ncclSend(own.send, 4, ncclFloat32, 9, own.comm, own.stream),
                                  "sending to nobody");
                       const auto [result, what] = group.end();
                       EXPECT_EQ(result, ncclInvalidArgument);
                       EXPECT_STREQ(what, "asking for what nobody has");
                       EXPECT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
                   }),
              "");
}

} // namespace
} // namespace truestep::simulator::tests
