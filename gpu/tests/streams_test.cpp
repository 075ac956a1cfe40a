// Streams in the host's form, and ranks that exchange on them.
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/in_process.hpp>
#include <truestep/gpu/communicators.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gpu {
namespace {

using distributed::Communicator;
using distributed::Traffic;

constexpr std::uint64_t seeds = 40;

TEST(Streams, WorkIsDoneInItsOrderAndLate) {
    bool late = false;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        HostStream stream(64, seed);
        int value = 1;
        const int two = 2;
        const int three = 3;
        stream.copy(&value, &two, sizeof value);
        late = late || value == 1;
        stream.copy(&value, &three, sizeof value);
        stream.synchronize();
        EXPECT_EQ(value, 3);
    }
    EXPECT_TRUE(late);
}

/// The value that one stream reads while another writes it.
int read_after_write(std::uint64_t seed, bool waits) {
    HostStream writer(64, seed);
    HostStream reader = writer.beside();
    int between = 1;
    int read = 0;
    const int two = 2;
    writer.copy(&between, &two, sizeof two);
    if (waits)
        reader.wait(writer.record());
    reader.copy(&read, &between, sizeof read);
    reader.synchronize();
    writer.synchronize();
    return read;
}

TEST(Streams, WhoeverWaitsForAnEventSeesWhatCameBeforeAndWhoeverDoesNotDoesNot) {
    int missed = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        EXPECT_EQ(read_after_write(seed, true), 2);
        missed += read_after_write(seed, false) == 2 ? 0 : 1;
    }
    EXPECT_GT(missed, 0);
}

/// The value that a stream reads from memory that another rewrites later.
int read_before_write(std::uint64_t seed, bool waits) {
    HostStream writer(64, seed);
    HostStream reader = writer.beside();
    int between = 1;
    int read = 0;
    const int two = 2;
    reader.copy(&read, &between, sizeof read);
    if (waits)
        writer.wait(reader.record());
    writer.copy(&between, &two, sizeof two);
    writer.synchronize();
    reader.synchronize();
    return read;
}

TEST(Streams, MemoryThatIsWrittenTooEarlyShows) {
    int spoiled = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        EXPECT_EQ(read_before_write(seed, true), 1);
        spoiled += read_before_write(seed, false) == 1 ? 0 : 1;
    }
    EXPECT_GT(spoiled, 0);
}

/// Vectors that only their stream writes.
class Buffer {
  public:
    Buffer(HostStream& stream, std::size_t size) : stream_(stream), values_(size, -1.0F) {}
    float* data() { return values_.data(); }
    void write(const std::vector<float>& values) {
        const auto staged = std::make_shared<std::vector<float>>(values);
        stream_.copy(values_.data(), staged->data(), staged->size() * sizeof(float));
        stream_.let_go(staged);
    }
    std::vector<float> read() {
        stream_.synchronize();
        return values_;
    }

  private:
    HostStream& stream_;
    std::vector<float> values_;
};

std::vector<std::size_t> bytes(const std::vector<std::size_t>& counts) {
    std::vector<std::size_t> result;
    result.reserve(counts.size());
    for (const std::size_t count : counts)
        result.push_back(count * sizeof(float));
    return result;
}

/// Part `to` of rank `from` in a round: a value that identifies both.
float value_of(int from, std::size_t to, std::uint64_t round) {
    return static_cast<float>(static_cast<std::uint64_t>(from) * 100 + to * 10 + round);
}

TEST(Streams, RanksExchangeWhatTheirStreamsHaveWritten) {
    const std::vector<std::size_t> counts{3, 0, 70, 1}; // of each rank's part
    for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        distributed::run_ranks(4, [&](Communicator& ranks) {
            const auto me = static_cast<std::size_t>(ranks.rank());
            HostStream stream(64, seed + 100 * me);
            const auto communicator = make_block_communicator(ranks, stream);
            const std::size_t all = std::reduce(counts.begin(), counts.end());
            const std::size_t before = std::accumulate(
                counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(me), std::size_t{0});
            Buffer to_send(stream, all);
            Buffer parts(stream, counts[me] * 4);
            Buffer sum(stream, counts[me]);
            Buffer gathered(stream, all);
            Buffer masks(stream, all);
            for (std::uint64_t round = 0; round < 4; ++round) {
                std::vector<float> values;
                for (std::size_t to = 0; to < 4; ++to)
                    values.insert(values.end(), counts[to], value_of(ranks.rank(), to, round));
                to_send.write(values);
                masks.write(values);
                const auto mask = communicator->start_all_gather(Traffic::mask, masks.data() + before,
                                                                 masks.data(), bytes(counts));
                communicator
                    ->start_all_to_all(Traffic::payload, to_send.data(), bytes(counts), parts.data(),
                                       bytes(std::vector<std::size_t>(4, counts[me])))
                    ->wait();
                communicator
                    ->start_reduce_scatter(Traffic::payload, to_send.data(), sum.data(), bytes(counts))
                    ->wait();
                communicator
                    ->start_all_gather(Traffic::moment, to_send.data() + before, gathered.data(),
                                       bytes(counts))
                    ->wait();
                to_send.write(std::vector<float>(all, -2.0F)); // it must not be read any more
                mask->wait();

                std::vector<float> expected_parts;
                float expected_sum = 0.0F;
                std::vector<float> expected_gathered;
                for (int from = 0; from < 4; ++from) {
                    expected_parts.insert(expected_parts.end(), counts[me], value_of(from, me, round));
                    expected_sum += value_of(from, me, round);
                    const auto part = static_cast<std::size_t>(from);
                    expected_gathered.insert(expected_gathered.end(), counts[part],
                                             value_of(from, part, round));
                }
                EXPECT_EQ(parts.read(), expected_parts) << "seed " << seed << ", round " << round;
                EXPECT_EQ(sum.read(), std::vector<float>(counts[me], expected_sum));
                EXPECT_EQ(gathered.read(), expected_gathered);
                EXPECT_EQ(masks.read(), expected_gathered);
            }
        });
}

/// Each rank's parts lie elsewhere, nothing goes to the next rank, and two get the same. So only
/// the sender's list tells where received data was.
TEST(Streams, RanksExchangeStretchesThatOnlyTheirSenderKnows) {
    constexpr std::size_t ranks_count = 4;
    const auto size_between = [](std::size_t from, std::size_t to) {
        return to == (from + 1) % ranks_count ? 0 : 1 + from;
    };
    const auto begin_at = [](std::size_t from, std::size_t to) { return 2 * from + (to > 1 ? 7 * to : 0); };
    for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        distributed::run_ranks(ranks_count, [&](Communicator& ranks) {
            const auto me = static_cast<std::size_t>(ranks.rank());
            HostStream stream(64, seed + 100 * me);
            const auto communicator = make_block_communicator(ranks, stream);
            Buffer to_send(stream, 40);
            Buffer received(stream, 40);
            for (const Traffic traffic : {Traffic::payload, Traffic::mask}) {
                std::vector<float> values;
                for (std::size_t i = 0; i < 40; ++i)
                    values.push_back(static_cast<float>(100 * me + i));
                to_send.write(values);
                received.write(std::vector<float>(40, -1.0F));
                std::vector<distributed::Stretch> to;
                std::vector<distributed::Stretch> from;
                std::vector<float> expected(40, -1.0F);
                for (std::size_t peer = 0; peer < ranks_count; ++peer) {
                    const std::size_t mine = size_between(peer, me);
                    to.push_back(
                        {begin_at(me, peer) * sizeof(float), size_between(me, peer) * sizeof(float)});
                    from.push_back({(9 * peer + 1) * sizeof(float), mine * sizeof(float)});
                    for (std::size_t i = 0; i < mine; ++i)
                        expected[9 * peer + 1 + i] =
                            static_cast<float>(100 * peer + begin_at(peer, me) + i);
                }
                const auto exchange =
                    communicator->start_stretches(traffic, to_send.data(), to, received.data(), from);
                to.assign(ranks_count, {}); // a caller may reuse its list
                exchange->wait();
                to_send.write(std::vector<float>(40, -2.0F)); // it must not be read any more
                EXPECT_EQ(received.read(), expected) << "seed " << seed;
            }
        });
}

TEST(Streams, SmallRecordsGoThroughTheHost) {
    distributed::run_ranks(3, [](Communicator& ranks) {
        HostStream stream(64, 1);
        const auto communicator = make_block_communicator(ranks, stream);
        EXPECT_TRUE(communicator->host_can_read(Traffic::agreement));
        EXPECT_FALSE(communicator->host_can_read(Traffic::payload));
        EXPECT_EQ(communicator->size(), 3);
        EXPECT_EQ(distributed::gather_records(*communicator, ranks.rank()), (std::vector<int>{0, 1, 2}));
    });
}

TEST(Streams, ARankThatFailsEndsTheOthers) {
    try {
        distributed::run_ranks(3, [](Communicator& ranks) {
            HostStream stream(64, 1);
            const auto communicator = make_block_communicator(ranks, stream);
            if (ranks.rank() == 1)
                throw Error("rank 1 is out of order");
            std::vector<float> all(3, 1.0F);
            communicator
                ->start_all_gather(Traffic::moment, &all[static_cast<std::size_t>(ranks.rank())],
                                   all.data(), std::vector<std::size_t>(3, sizeof(float)))
                ->wait();
        });
        FAIL() << "nobody noticed";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "rank 1 is out of order");
    }
}

TEST(Streams, DataThatTheHostCannotReadIsNotHeldBack) {
    distributed::run_ranks(2, [](Communicator& ranks) {
        HostStream stream(64, 3);
        const auto inner = make_block_communicator(ranks, stream);
        distributed::Disturbance disturbance;
        disturbance.hold_back.fill(true);
        disturbance.late_start.fill(1);
        distributed::CountingCommunicator communicator(*inner, disturbance);
        Buffer all(stream, 2);
        const auto me = static_cast<std::size_t>(ranks.rank());
        all.write({1.0F + static_cast<float>(me), 1.0F + static_cast<float>(me)});
        communicator
            .start_all_gather(Traffic::moment, all.data() + me, all.data(),
                              std::vector<std::size_t>(2, sizeof(float)))
            ->wait();
        EXPECT_EQ(all.read(), (std::vector<float>{1.0F, 2.0F}));
        EXPECT_EQ(communicator.bytes(Traffic::moment), sizeof(float));
    });
}

} // namespace
} // namespace truestep::gpu
