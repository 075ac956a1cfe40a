// The least of a step, computed by hand; and compared with the formula of sent bytes.
#include <cmath>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "peers/limit.hpp"

namespace truestep::peers {
namespace {

TEST(Limit, IsWhatWasWorkedOutByHand) {
    // 32 parameters on two ranks, a quarter selected: each rank takes 4 of its 16 for SCAPE, 8 of 32 for
    // those that select in the whole vector. C(16, 4) = 1820, C(32, 8) = 10518300.
    const Setting setting{32, 0.25, {}, 4};
    const double mask = std::log2(1820.0) / 8;
    const double indices = std::log2(10518300.0) / 8;
    for (const auto& [kind, wire, memory] : {
             std::tuple{"dense", 128.0, 14.0},
             std::tuple{"dense-bf16", 96.0, 14.0},
             std::tuple{"dense-bf16-all", 64.0, 16.0},
             std::tuple{"adamw", 128.0, 18.0},
             std::tuple{"topk-indices", 32 + indices, 20.0},
             std::tuple{"ok-topk", 32 + indices, 20.0},
             std::tuple{"scape", 32 + mask, 20.25},
             std::tuple{"scape-using-up", 32 + mask, 20.25},
             std::tuple{"scape-bf16", 24 + mask, 20.25},
             std::tuple{"diloco", 128.0 / 4, 20 + 14.0 / 4},
             std::tuple{"gasloc", 128.0 / 4, 20 + 20.0 / 4},
         }) {
        const LeastBytes least = least_bytes(kind, setting, 2);
        EXPECT_NEAR(least.wire, wire, 1e-9) << kind;
        EXPECT_DOUBLE_EQ(least.memory, 32 * memory) << kind;
    }
}

TEST(Limit, OfOneRankIsItsMemoryAlone) {
    const Setting setting{1000, 0.1};
    for (const auto& [kind, memory] :
         {std::tuple{"dense", 20.0}, std::tuple{"adamw", 28.0}, std::tuple{"scape", 20.25}}) {
        const LeastBytes least = least_bytes(kind, setting, 1);
        EXPECT_EQ(least.wire, 0) << kind;
        EXPECT_DOUBLE_EQ(least.memory, 1000 * memory) << kind;
    }
}

/// A peer never sends less than the least. Where nothing is coded, only agreements exceed it.
TEST(Limit, IsReachedByWhatIsSent) {
    for (const Kind& kind : kinds())
        for (const int ranks : {2, 3, 4, 8})
            for (const double density : {0.001, 0.01, 0.1, 0.5}) {
                const Setting setting{1 << 20, density};
                const double sent = formula_bytes(kind.name, setting, ranks) / ranks /
                                    static_cast<double>(inner_steps(kind, setting));
                const double least = least_bytes(kind.name, setting, ranks).wire;
                const std::string what =
                    std::string(kind.name) + ' ' + std::to_string(ranks) + ' ' + std::to_string(density);
                EXPECT_GE(sent, least * (1 - 1e-12)) << what;
                if (kind.number != Number::density) {
                    EXPECT_LE(sent, least + 16.0 * ranks) << what;
                }
            }
}

TEST(Limit, IsTheLargerOfWireAndMemoryAndTheirSum) {
    // 3 MB at 1 MB/s; 8 MB at 4 MB/s.
    const Limit limit = limit_of({3e6, 8e6}, 1e6, 4e6);
    EXPECT_DOUBLE_EQ(limit.larger(), 3);
    EXPECT_DOUBLE_EQ(limit.sum(), 5);
    const Limit memory = limit_of({3e6, 8e6}, 0, 4e6); // the link is no limit
    EXPECT_DOUBLE_EQ(memory.larger(), 2);
    EXPECT_DOUBLE_EQ(memory.sum(), 2);
}

} // namespace
} // namespace truestep::peers
