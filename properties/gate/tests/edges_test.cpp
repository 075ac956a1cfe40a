// Tests that cases at edges get settings that their constants have not met, in all pairs.
#include <truestep/gate/edges.hpp>

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>

namespace truestep::gate {
namespace {

using problem::Dimension;

TEST(Covering, EachConstantMeetsEachValueAsItsCasesAllow) {
    Covering covering;
    std::map<int, std::set<int>> met;
    for (int turn = 0; turn < 10; ++turn) { // two constants, whose cases alternate
        covering.begin({{Dimension::tokens, turn % 2 == 0 ? 128 : 256}});
        met[turn % 2].insert(covering.choose("five", {0, 1, 2, 3, 4}));
    }
    EXPECT_EQ(met[0].size(), 5U);
    EXPECT_EQ(met[1].size(), 5U);
}

TEST(Covering, ValuesOfDifferentSettingsMeetInAllPairs) {
    Covering covering;
    constexpr int settings = 7;
    std::set<std::array<int, 4>> met;
    for (int turn = 0; turn < 10; ++turn) {
        covering.begin({{Dimension::share, 1024}});
        std::array<int, settings> values{};
        for (int i = 0; i < settings; ++i)
            values[static_cast<std::size_t>(i)] = covering.choose(std::to_string(i), {0, 1});
        for (int i = 0; i < settings; ++i)
            for (int j = 0; j < i; ++j)
                met.insert(
                    {i, j, values[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(j)]});
    }
    EXPECT_EQ(met.size(), 4U * settings * (settings - 1) / 2);
}

TEST(EdgeCounts, CountsCasesAtEachEdgeAndWithEachValue) {
    EdgeCounts counts;
    counts.add({{Dimension::part, 7}}, {{"payload", "bf16"}});
    counts.add({{Dimension::part, 16}}, {{"payload", "usual"}});
    counts.add({{Dimension::part, 3}}, {{"payload", "fp32"}});
    const std::string table = counts.table();
    EXPECT_THAT(table, testing::HasSubstr("square_lanes part 8 1 0 0 1 0\n"));
    EXPECT_THAT(table, testing::HasSubstr("square_lanes payload=bf16 1\n"));
    EXPECT_THAT(table, testing::HasSubstr("square_lanes payload=fp32 0\n"));
    EXPECT_THAT(table, testing::HasSubstr("score_lanes payload=bf16 0\n"));
}

} // namespace
} // namespace truestep::gate
