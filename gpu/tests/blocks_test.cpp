// Blocks in the host's form: their barriers, and the sums that all systems use.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/gpu/algorithms/prefix.hpp>
#include <truestep/problem/error.hpp>

#include "machine.hpp"

namespace truestep::gpu {
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
            counts.push_back(static_cast<std::uint32_t>(random()) >> 12U);
            expected.push_back(expected.back() + static_cast<Index>(counts.back()));
        }
        std::vector<Index> offsets(expected.size(), -1);
        OffsetsOf<Machine>().run(machine, counts.data(), size, offsets.data());
        ASSERT_EQ(offsets, expected) << size;
    }
}

/// Records what a scan gives each thread of a block.
struct Scanned {
    struct Arguments {
        const std::uint32_t* values;
        std::uint32_t* before;
        std::uint32_t* all;
    };
    using Shared = Scan;
    template <class Block>
    static void run(Block& block, Shared& shared, const Arguments& a) {
        for (int round = 0; round < 2; ++round) // the same memory again
            scan(
                block, shared, [&](int thread) { return a.values[thread]; },
                [&](int thread, std::uint32_t before, std::uint32_t all) {
                    a.before[thread] = before;
                    a.all[thread] = all;
                });
    }
};

TEST_P(Threads, AScanSumsOverAllWarps) {
    std::mt19937_64 random(2);
    const auto threads = static_cast<std::size_t>(GetParam());
    std::vector<std::uint32_t> values;
    std::vector<std::uint32_t> expected;
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < threads; ++i) {
        values.push_back(static_cast<std::uint32_t>(random()) >> 10U);
        expected.push_back(sum);
        sum += values.back();
    }
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        std::vector<std::uint32_t> before(threads);
        std::vector<std::uint32_t> all(threads);
        Machine machine(GetParam(), seed);
        machine.run<Scanned>(1, {values.data(), before.data(), all.data()});
        EXPECT_EQ(before, expected);
        EXPECT_EQ(all, std::vector<std::uint32_t>(threads, sum));
    }
}

/// A scan whose warps do not wait for each other's sums.
struct HastyScan {
    using Arguments = Scanned::Arguments;
    using Shared = Scan;
    template <class Block>
    static void run(Block& block, Shared& shared, const Arguments& a) {
        block.warp_scan([&](int thread) { return a.values[thread]; },
                        [&](int thread, std::uint32_t before, std::uint32_t all) {
                            shared.warps[thread / warp_threads] = all;
                            for (int warp = 0; warp < thread / warp_threads; ++warp)
                                before += shared.warps[warp];
                            a.before[thread] = before;
                        });
    }
};

TEST(Barrier, OneThatIsMissingBetweenWarpsShowsInAShuffledOrderOnly) {
    constexpr std::size_t threads = 256;
    const std::vector<std::uint32_t> ones(threads, 1);
    std::vector<std::uint32_t> expected;
    for (std::uint32_t thread = 0; thread < threads; ++thread)
        expected.push_back(thread);
    std::vector<std::uint32_t> before(threads);
    Machine ascending(threads, 0);
    ascending.run<HastyScan>(1, {ones.data(), before.data(), nullptr});
    EXPECT_EQ(before, expected) << "the ascending order hides it";
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Machine shuffled(threads, seed);
        shuffled.run<HastyScan>(1, {ones.data(), before.data(), nullptr});
        EXPECT_NE(before, expected) << "seed " << seed;
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
} // namespace truestep::gpu
