// Tests that the queue returns frames unchanged and in order, and reports when it is full.
#include <chrono>
#include <cstddef>
#include <deque>
#include <random>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

#include "delay/delay_queue.hpp"

namespace truestep::bench {
namespace {

TEST(DelayQueue, GivesBackWhatItWasGivenInOrder) {
    constexpr std::size_t largest = 10;
    DelayQueue held(64, largest);
    std::mt19937 random(5);
    std::deque<std::size_t> inside; // sizes; a frame is as many bytes of its number
    std::size_t pushed = 0;
    std::size_t popped = 0;
    std::size_t refused = 0;
    for (int turn = 0; turn < 20'000; ++turn) {
        if (random() % 2 == 0) {
            const auto room = held.room();
            if (room.empty()) {
                ++refused;
                ASSERT_GE(inside.size(), 4U); // less never fills 64 bytes
                continue;
            }
            ASSERT_EQ(room.size(), largest);
            const std::size_t size = 1 + random() % largest;
            for (std::byte& byte : room) // bytes behind the frame must not matter
                byte = std::byte(pushed % 251);
            held.push(size, pushed, DelayQueue::Time{std::chrono::seconds(pushed)});
            inside.push_back(size);
            ++pushed;
        } else if (!held.empty()) {
            const DelayQueue::Frame& frame = held.front();
            ASSERT_EQ(frame.link, popped);
            ASSERT_EQ(frame.due, DelayQueue::Time{std::chrono::seconds(popped)});
            ASSERT_EQ(frame.size, inside.front());
            for (const std::byte byte : held.bytes(frame))
                ASSERT_EQ(byte, std::byte(popped % 251));
            held.pop();
            inside.pop_front();
            ++popped;
        }
    }
    EXPECT_GT(popped, 5000U);
    EXPECT_GT(refused, 100U);
}

TEST(DelayQueue, FillsUpAndEmptiesWhole) {
    DelayQueue held(30, 10);
    for (int round = 0; round < 3; ++round) {
        for (int frame = 0; frame < 3; ++frame) {
            ASSERT_FALSE(held.room().empty()) << round;
            held.push(10, 0, {});
        }
        EXPECT_TRUE(held.room().empty());
        held.pop();
        ASSERT_FALSE(held.room().empty()); // in the place of the first frame
        held.push(10, 0, {});
        EXPECT_TRUE(held.room().empty());
        while (!held.empty())
            held.pop();
    }
    EXPECT_THROW(DelayQueue(9, 10), Error);
}

} // namespace
} // namespace truestep::bench
