// Links between ranks with a device each, over the simulated NCCL.
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/gpu/cuda_machine.hpp>
#include <truestep/gpu/nccl.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gpu {
namespace {

using distributed::Peers;
using distributed::Traffic;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Values = CudaMachine::Vector<float>;

constexpr Index count = 500;
constexpr std::size_t bytes = count * sizeof(float);

/// A rank with its device, its links, and messages in its memory.
struct Rank {
    Rank(Peers& peers, std::vector<int> with, int device = -1)
        : ranks(peers), stream({.device = device < 0 ? peers.rank() : device}),
          machine(stream, Exchange::device),
          links(make_nccl_links(peers, stream, {Traffic::payload}, std::move(with),
                                {.timeout = std::chrono::seconds(20)})) {}

    [[nodiscard]] std::shared_ptr<Values> message(float value) {
        auto made = std::make_shared<Values>();
        machine.resize(*made, count);
        const std::vector<float> all(count, value);
        machine.upload(made->data(), all.data(), count);
        return made;
    }
    void send(int to, std::uint64_t number, const std::shared_ptr<Values>& values) {
        links->send(Traffic::payload, to, number, {values, values->data()}, bytes);
    }
    [[nodiscard]] std::unique_ptr<distributed::IncomingMessage> ask(int from, std::uint64_t number,
                                                                    std::size_t size = bytes) const {
        return links->receive(Traffic::payload, from, number, size);
    }
    [[nodiscard]] std::vector<float> read(distributed::IncomingMessage& incoming) {
        std::vector<float> all(count);
        machine.download(all.data(), reinterpret_cast<const float*>(incoming.wait(bytes)), count);
        return all;
    }

    Peers& ranks;
    CudaStream stream;
    CudaMachine machine;
    std::unique_ptr<Peers> links;
};

std::vector<float> all_of(float value) {
    return std::vector<float>(count, value);
}

TEST(Links, MessagesArriveWhateverIsTakenFirst) {
    distributed::run_peers(2, [](Peers& peers) {
        Rank rank(peers, {1 - peers.rank()});
        if (peers.rank() == 0) {
            for (const int number : {1, 2, 3})
                rank.send(1, static_cast<std::uint64_t>(number), rank.message(static_cast<float>(number)));
            return;
        }
        const auto first = rank.ask(0, 1);
        static_cast<void>(rank.ask(0, 2)); // never awaited
        const auto third = rank.ask(0, 3);
        EXPECT_EQ(rank.read(*third), all_of(3));
        EXPECT_EQ(rank.read(*first), all_of(1));
    });
}

/// On one stream, each send would wait for the other rank to receive.
TEST(Links, BothDirectionsAndACircleWaitForNobody) {
    for (const int size : {2, 3, 5})
        distributed::run_peers(size, [size](Peers& peers) {
            std::set<int> neighbours{(peers.rank() + 1) % size, (peers.rank() + size - 1) % size};
            Rank rank(peers, {neighbours.begin(), neighbours.end()});
            const auto value = [](int from, std::uint64_t number) {
                return static_cast<float>(10 * from) + static_cast<float>(number);
            };
            for (const std::uint64_t number : {1U, 2U})
                for (const int to : neighbours)
                    rank.send(to, number, rank.message(value(peers.rank(), number)));
            for (const std::uint64_t number : {1U, 2U})
                for (const int from : neighbours)
                    EXPECT_EQ(rank.read(*rank.ask(from, number)), all_of(value(from, number)));
        });
}

TEST(Links, AMessageIsTheSendersAgainWhenItHasGone) {
    distributed::run_peers(2, [](Peers& peers) {
        Rank rank(peers, {1 - peers.rank()});
        const auto sign = std::make_shared<int>(1);
        if (peers.rank() == 0) {
            const auto message = rank.message(7);
            rank.send(1, 1, message);
            rank.links->progress();
            EXPECT_FALSE(distributed::is_let_go(message)) << "the other has not asked for it";
            peers.send(Traffic::agreement, 1, 5, sign, sizeof(int));
            static_cast<void>(peers.receive(Traffic::agreement, 1, 6, sizeof(int))->wait(sizeof(int)));
            while (!distributed::is_let_go(message))
                rank.links->progress();
            return;
        }
        const auto incoming = rank.ask(0, 1);
        static_cast<void>(peers.receive(Traffic::agreement, 0, 5, sizeof(int))->wait(sizeof(int)));
        EXPECT_EQ(rank.read(*incoming), all_of(7));
        peers.send(Traffic::agreement, 0, 6, sign, sizeof(int));
    });
}

/// The error with which a group of ranks ends.
std::string ended(int size, const std::function<void(Peers&)>& work) {
    try {
        distributed::run_peers(size, work);
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

TEST(Links, AMessageOfAnotherSizeIsTold) {
    EXPECT_THAT(ended(2,
                      [](Peers& peers) {
                          Rank rank(peers, {1 - peers.rank()});
                          if (peers.rank() == 0)
                              rank.send(1, 1, rank.message(1));
                          else
                              static_cast<void>(rank.ask(0, 1, 8)->wait(8));
                      }),
                HasSubstr("rank 0 sent its payload (message 1, 2000 bytes) where rank 1 awaits its payload "
                          "(message 1, 8 bytes)"));
}

/// The rank has announced a send, and the other's device waits for data that never comes.
TEST(Links, WhoDiesWhileItSendsIsNamed) {
    EXPECT_THAT(ended(2,
                      [](Peers& peers) {
                          Rank rank(peers, {1 - peers.rank()});
                          if (peers.rank() == 0) {
                              rank.send(1, 1, rank.message(1));
                              throw std::runtime_error("out of luck");
                          }
                          const auto incoming = rank.ask(0, 1);
                          static_cast<void>(rank.read(*incoming));
                          static_cast<void>(rank.read(*rank.ask(0, 2)));
                      }),
                HasSubstr("out of luck"));
}

TEST(Links, WhatHasNoLinkIsRefused) {
    distributed::run_peers(3, [](Peers& peers) {
        if (peers.rank() == 2)
            return;
        Rank rank(peers, {1 - peers.rank()});
        EXPECT_THAT(
            [&] { rank.send(2, 1, rank.message(1)); },
            ThrowsMessage<Error>(HasSubstr("has no link with rank 2; name it where the links are made")));
        EXPECT_TRUE(rank.links->host_can_read(Traffic::agreement));
        EXPECT_FALSE(rank.links->host_can_read(Traffic::payload));
    });
}

TEST(Links, TwoRanksOfOneDeviceAreRefused) {
    distributed::run_peers(2, [](Peers& peers) {
        EXPECT_THAT([&] { Rank(peers, {1 - peers.rank()}, 0); },
                    ThrowsMessage<Error>(HasSubstr("nccl: ranks 0 and 1 have the same device")));
    });
}

} // namespace
} // namespace truestep::gpu
