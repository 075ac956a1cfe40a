// Blocks in the host's form: their barriers, and the sums that every system counts with.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <scape/gpu/algorithms/prefix.hpp>
#include <scape/problem/error.hpp>

#include "machine.hpp"

namespace scape::gpu {
namespace {

class Threads : public testing::TestWithParam<int> {};
std::string threads_name(const testing::TestParamInfo<int>& info) {
    return std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Blocks, Threads, testing::Values(32, 128, 256, 1024), threads_name);

TEST_P(Threads, OffsetsAreTheSumsOfWhatComesBefore) {
    Machine machine(GetParam(), 1 + static_cast<std::uint64_t>(GetParam()));
    std::mt19937_64 random(1);
    for (const Index size : sizes) {
        std::vector<std::uint32_t> counts;
        std::vector<Index> expected{0};
        for (Index i = 0; i < size; ++i) {
            counts.push_back(static_cast<std::uint32_t>(random()));
            expected.push_back(expected.back() + static_cast<Index>(counts.back()));
        }
        std::vector<Index> offsets(expected.size(), -1);
        machine.run<Offsets>(Offsets::blocks(size), {counts.data(), size, offsets.data()});
        ASSERT_EQ(offsets, expected) << size;
    }
}

TEST(HostForm, NoBlockHasAnyOtherNumberOfThem) {
    for (const int threads : {-32, 0, 16, 96, 2048})
        EXPECT_THROW(HostStream(threads, 1), Error);
}

/// A scan whose first barrier is missing: threads read what others write in the same phase.
struct NoBarrier {
    struct Arguments {
        std::uint32_t* sums;
    };
    struct Shared {
        std::uint32_t values[most_threads];
    };
    template <class Block>
    static void run(Block& block, Shared& shared, const Arguments& a) {
        block.phase([&](int thread) {
            shared.values[thread] = static_cast<std::uint32_t>(thread);
            a.sums[thread] = shared.values[thread] + (thread > 0 ? shared.values[thread - 1] : 0);
        });
    }
};
struct WithBarrier : NoBarrier {
    template <class Block>
    static void run(Block& block, Shared& shared, const Arguments& a) {
        block.phase([&](int thread) { shared.values[thread] = static_cast<std::uint32_t>(thread); });
        block.phase([&](int thread) {
            a.sums[thread] = shared.values[thread] + (thread > 0 ? shared.values[thread - 1] : 0);
        });
    }
};

TEST(Barrier, OneThatIsMissingShowsInAShuffledOrderOnly) {
    constexpr int threads = 256;
    std::vector<std::uint32_t> expected;
    for (std::uint32_t thread = 0; thread < threads; ++thread)
        expected.push_back(thread + (thread > 0 ? thread - 1 : 0));
    std::vector<std::uint32_t> sums(threads);
    Machine ascending(threads, 0);
    ascending.run<NoBarrier>(1, {sums.data()});
    EXPECT_EQ(sums, expected) << "the ascending order hides it";
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Machine shuffled(threads, seed);
        shuffled.run<NoBarrier>(1, {sums.data()});
        EXPECT_NE(sums, expected) << "seed " << seed;
        shuffled.run<WithBarrier>(1, {sums.data()});
        EXPECT_EQ(sums, expected) << "seed " << seed;
    }
}

} // namespace
} // namespace scape::gpu
