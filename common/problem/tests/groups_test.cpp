// Tests parsing and checks of groups of ranks, and the digests of problems.
#include <truestep/problem/groups.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/digest.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::problem {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(GroupsTest, OneGroupAndGroupsOfOneHaveNoLevels) {
    for (const Groups& groups : {Groups{}, Groups{1}, Groups{5}, Groups{1, 1, 1}})
        EXPECT_FALSE(has_levels(groups)) << groups_text(groups);
    for (const Groups& groups : {Groups{1, 2}, Groups{2, 1}, Groups{3, 2, 1}})
        EXPECT_TRUE(has_levels(groups)) << groups_text(groups);
}

TEST(GroupsTest, AreTextAndBack) {
    for (const Groups& groups : {Groups{}, Groups{7}, Groups{3, 2, 1}})
        EXPECT_EQ(parse_groups(groups_text(groups)), groups);
    EXPECT_EQ(groups_text(Groups{3, 2, 1}), "3,2,1");
    for (const char* text : {",", "3,", ",3", "3 2", "a", "3,,2", "99999999999"})
        EXPECT_THROW(static_cast<void>(parse_groups(text)), Error) << text;
}

TEST(GroupsTest, HaveAsManyRanksTogetherAsThereAre) {
    EXPECT_NO_THROW(check_groups(Groups{}, 4));
    EXPECT_NO_THROW(check_groups(Groups{3, 1}, 4));
    EXPECT_THAT(
        [] {
            check_groups(Groups{3, 2}, 4);
        },
        ThrowsMessage<Error>("groups is 3,2, which is 5 ranks together; the problem has 4 workers"));
    EXPECT_THAT([] { check_groups(Groups{4, 0}, 4); }, ThrowsMessage<Error>(HasSubstr("at least 1 rank")));
    EXPECT_THAT([] { check_groups(Groups{5, -1}, 4); }, ThrowsMessage<Error>(HasSubstr("at least 1 rank")));
}

TEST(GroupsTest, AreCheckedWithTheirProblem) {
    const Layout layout({{"a", 7}});
    HyperParameters settings;
    settings.groups = {2, 1};
    EXPECT_NO_THROW(
        static_cast<void>(make_problem(Algorithm::scape, 3, layout, PartitionRule::by_shard, settings)));
    EXPECT_THROW(
        static_cast<void>(make_problem(Algorithm::scape, 4, layout, PartitionRule::by_shard, settings)),
        Error);
    EXPECT_THAT(
        [&] {
            static_cast<void>(make_problem(Algorithm::adams, 3, layout, PartitionRule::by_shard, settings));
        },
        ThrowsMessage<Error>(HasSubstr("one level")));
}

/// A checkpoint continues in other groups, as it does with other ranks; but ranks with different
/// groups do not run together.
TEST(GroupsTest, AreOfTheRanksAndNotOfTheModel) {
    const Layout layout({{"a", 7}});
    const auto density = DensitySchedule::constant(0.5);
    const auto all = ranges(layout, 3, PartitionRule::by_shard);
    HyperParameters settings;
    const auto flat = make_problem(Algorithm::scape, 3, layout, PartitionRule::by_shard, settings);
    settings.groups = {2, 1};
    const auto grouped = make_problem(Algorithm::scape, 3, layout, PartitionRule::by_shard, settings);
    EXPECT_EQ(model_digest(flat, density), model_digest(grouped, density));
    EXPECT_NE(digest(flat, all, density), digest(grouped, all, density));
}

/// Checkpoints hold the number, so it must never change for the same words. Worked out apart: FNV-1a, and
/// the first half of MurmurHash3's finalizer.
TEST(DigestTest, KeepsItsValue) {
    const Layout layout({{"a", 7}});
    const auto problem = make_problem(Algorithm::scape, 3, layout, PartitionRule::by_shard, {});
    const auto density = DensitySchedule::constant(0.5);
    EXPECT_EQ(model_text(problem, density),
              "scape tensor 1:a 7 0.9 0.95 1e-08 0.1 0 adam first floor density 2 0.5 0.5 0");
    EXPECT_EQ(model_digest(problem, density), 8522530012409351625U);
}

} // namespace
} // namespace truestep::problem
