// A bug that only some schedules show, and that checks of accesses cannot find, since all are
// atomic.
#include <gmock/gmock.h>

#include <set>

#include "support.hpp"

namespace truestep::simulator::tests {
namespace {

/// The last to store wins: depends on the order of blocks, warps and diverged lanes.
std::uint64_t last_to_come(const std::string& who, std::uint32_t blocks, std::uint32_t threads,
                           std::uint64_t seed) {
    Bench bench;
    const auto place = bench.memory({99});
    bench.run("mov.u32 %r2, " + who +
                  ";\ncvt.u64.u32 %rd5, %r2;\natom.global.exch.b64 %rd6, [%rd1], %rd5;\n",
              {place}, blocks, threads, seed);
    return bench.words(0)[0];
}

class Schedules : public testing::TestWithParam<std::tuple<const char*, std::uint32_t, std::uint32_t>> {};
INSTANTIATE_TEST_SUITE_P(Of, Schedules,
                         testing::Values(std::tuple{"%ctaid.x", 3U, 1U}, std::tuple{"%tid.x", 1U, 96U}));

TEST_P(Schedules, SomeShowARaceOfAtomicsAndEachRepeatsWhatItShows) {
    const auto [who, blocks, threads] = GetParam();
    std::set<std::uint64_t> seen;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const std::uint64_t last = last_to_come(who, blocks, threads, seed);
        EXPECT_EQ(last_to_come(who, blocks, threads, seed), last);
        seen.insert(last);
    }
    EXPECT_GE(seen.size(), 3U);
}

/// Diverged lanes run in either order.
TEST(Schedules, SomeLetThePartedLanesGoFirstAndSomeLast) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        Bench bench;
        const auto place = bench.memory({0});
        bench.run("setp.gt.u32 %p1, %r1, 15;\nmov.u64 %rd5, 1;\n@%p1 bra OTHERS;\n"
                  "atom.global.exch.b64 %rd6, [%rd1], %rd5;\nbra.uni DONE;\n"
                  "OTHERS:\nadd.s64 %rd5, %rd5, 1;\natom.global.exch.b64 %rd6, [%rd1], %rd5;\nDONE:\n",
                  {place}, 1, lanes, seed);
        seen.insert(bench.words(0)[0]);
    }
    EXPECT_EQ(seen, (std::set<std::uint64_t>{1, 2}));
}

} // namespace
} // namespace truestep::simulator::tests
