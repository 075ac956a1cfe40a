// Tests ranks in groups (section 32) against the reference, and what they send.
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <truestep/distributed/levels.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/verify/report.hpp>

#include "sharded_support.hpp"

namespace truestep::distributed::scape {
namespace {

using problem::Groups;
using problem::PartitionRule;
using problem::Payload;

problem::HyperParameters in_groups(const Groups& groups, Payload payload = Payload::fp32) {
    problem::HyperParameters hyper;
    hyper.groups = groups;
    hyper.payload = payload;
    return hyper;
}

int ranks_of(const Groups& groups) {
    return std::reduce(groups.begin(), groups.end());
}

class GroupsOfRanks : public testing::TestWithParam<Groups> {};

TEST_P(GroupsOfRanks, EqualTheReferenceInEveryBit) {
    const Groups& groups = GetParam();
    const int workers = ranks_of(groups);
    for (const Payload payload :
         {Payload::fp32, Payload::bf16, Payload::e5m2, Payload::bf16_both, Payload::e5m2_both})
        for (const auto partition : {PartitionRule::by_shard, PartitionRule::by_tensor}) {
            auto setting =
                make_setting(workers, workers == 4 ? 1.0 : 0.1, partition, in_groups(groups, payload));
            setting.problem.settings.clip_norm = groups.front() == 3 ? 0.5 : 0.0;
            setting.threads = groups.back() == 1 ? 3 : 1;
            setting.largest_piece = partition == PartitionRule::by_shard ? 7 : 0;
            const auto path = std::filesystem::path(testing::TempDir()) /
                              (std::to_string(getpid()) + "_groups.safetensors");
            run_ranks(workers, [&](Communicator& communicator) {
                const auto outcome = check_sharded(setting, communicator, path);
                if (communicator.rank() == 0) {
                    EXPECT_EQ(outcome.status(), verify::Status::passed)
                        << text_report(*outcome.verdict) << outcome.replica_drift;
                }
            });
            std::filesystem::remove(path);
        }
}

TEST(GroupsOfRanks, WhatIsGivenUpStartsNoMoreExchanges) {
    const auto setting = make_setting(4, 0.3, PartitionRule::by_shard, in_groups({2, 2}));
    run_ranks(4, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        const auto gradient = rank.gradient(2);
        rank.optimizer().bucket(std::vector<std::size_t>{4, 3}, gradient);
        rank.optimizer().bucket(std::vector<std::size_t>{2},
                                gradient); // the first's means are on their way
        const auto exchanges = rank.counting().exchanges(Traffic::moment);
        rank.optimizer().forget_parts();
        EXPECT_EQ(rank.counting().exchanges(Traffic::moment), exchanges);
        EXPECT_NO_THROW(rank.step(2));
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

INSTANTIATE_TEST_SUITE_P(All, GroupsOfRanks,
                         testing::Values(Groups{2, 2}, Groups{3, 2, 1}, Groups{1, 5}, Groups{1, 1, 1},
                                         Groups{5}, Groups{2, 2, 2, 2, 1}));

/// The bits of w after some steps, the same on all ranks.
std::vector<float> parameters_after(const Groups& groups, int workers, Index steps,
                                    problem::Layout model = small_model()) {
    const auto setting =
        make_setting(workers, 0.3, PartitionRule::by_shard, in_groups(groups), std::move(model));
    std::vector<float> parameters;
    run_ranks(workers, [&](Communicator& inner) {
        Rank rank(inner, setting);
        for (Index step = 1; step <= steps; ++step)
            rank.step(step);
        if (inner.rank() == 0)
            parameters.assign(rank.optimizer().parameters().begin(), rank.optimizer().parameters().end());
        static_cast<void>(rank.optimizer().coming_mask());
    });
    return parameters;
}

TEST(GroupsTest, OneGroupAndGroupsOfOneAreSectionFourAndOthersAreNot) {
    const auto flat = parameters_after({}, 5, 4);
    EXPECT_EQ(parameters_after({5}, 5, 4), flat);
    EXPECT_EQ(parameters_after({1, 1, 1, 1, 1}, 5, 4), flat);
    EXPECT_NE(parameters_after({1, 4}, 5, 4), flat);
    EXPECT_NE(parameters_after({3, 2}, 5, 4), flat);
}

/// From 2^13 values a message on, the length of a piece follows from the model and the largest group. With
/// a length of its own, each group would start another number of exchanges.
TEST(GroupsTest, UnequalGroupsCutALargeModelIntoAsManyPieces) {
    EXPECT_FALSE(parameters_after({3, 1}, 4, 1, problem::Layout({{"all", 2'300'000, false}})).empty());
}

/// Section 32's bytes for equal groups: n ranks in each of G.
TEST(GroupsTest, SendTheBytesOfSection32InFewMessages) {
    constexpr std::uint64_t n = 4;
    constexpr std::uint64_t G = 3;
    constexpr std::uint64_t P = n * G;
    constexpr std::uint64_t d = 120'000;
    constexpr std::uint64_t k = d / 100;
    for (const Payload payload : {Payload::fp32, Payload::bf16}) {
        const auto setting = make_setting(P, 0.01, PartitionRule::by_shard, in_groups({n, n, n}, payload),
                                          problem::Layout({{"all", d, false}}));
        run_ranks(P, [&](Communicator& inner) {
            Rank rank(inner, setting);
            rank.step(1);
            for (Index step = 2; step <= 4; ++step) {
                rank.counting().reset();
                rank.step(step);
                const auto& counting = rank.counting();
                const auto messages = [&](Traffic traffic) {
                    return counting.messages()[static_cast<std::size_t>(traffic)];
                };
                const auto me = static_cast<std::uint64_t>(inner.rank());
                // Owner and handler of its own values, or not.
                const std::uint64_t across = me / n * n + me * n / P == me ? G - 1 : G;
                const std::uint64_t value = payload == Payload::bf16 ? 2 : 4;
                EXPECT_EQ(counting.bytes(Traffic::payload), value * (k - k / n) + 4 * across * k / P);
                EXPECT_EQ(counting.bytes(Traffic::moment), 4 * (across * k / P + (n - 1) * k / n));
                const std::uint64_t code = coded_bytes(d / P, k / P);
                EXPECT_EQ(counting.bytes(Traffic::mask), across * code + (n - 1) * (P / n) * code);
                EXPECT_EQ(counting.bytes(Traffic::agreement), 16 * (across + (n - 1) * (P / n)));
                for (const Traffic traffic :
                     {Traffic::payload, Traffic::moment, Traffic::mask, Traffic::agreement})
                    EXPECT_EQ(messages(traffic), n - 1 + across);
                EXPECT_EQ(rank.optimizer().statistics().sent, counting.bytes()) << "its own account";
            }
            static_cast<void>(rank.optimizer().coming_mask());
        });
    }
}

/// The second hop is on its way when the step returns, so a rank sees the mask without another
/// rank's next step.
TEST(GroupsTest, TheComingMaskIsThereWithoutAnotherStepOfTheOthers) {
    const auto setting = make_setting(6, 0.1, PartitionRule::by_shard, in_groups({3, 2, 1}));
    run_ranks(6, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        const auto before = rank.counting().exchanges();
        EXPECT_EQ(rank.optimizer().coming_mask().selected(), rank.optimizer().mask().selected());
        EXPECT_EQ(rank.counting().exchanges(), before);
    });
}

TEST(GroupsTest, WhatCannotBeIsRefused) {
    using testing::HasSubstr;
    using testing::ThrowsMessage;
    run_ranks(3, [](Communicator& inner) {
        auto setting = make_setting(3, 0.1, PartitionRule::by_shard, in_groups({2, 1}));
        setting.reduction = Reduction::native;
        EXPECT_THAT(
            [&] { Rank rank(inner, setting); },
            ThrowsMessage<Error>("groups is 2,1; a reduction by the library adds in an order of its "
                                 "own: set reduction to ordered, or leave groups out"));
        // Ranks with different groups: none begins.
        setting.reduction = Reduction::ordered;
        if (inner.rank() == 1)
            setting.problem.settings.groups = {1, 2};
        EXPECT_THAT(
            [&] { Rank rank(inner, setting); },
            ThrowsMessage<Error>("rank 1 was given another problem than rank 0: groups is 1,2 where rank 0 "
                                 "has 2,1; give all ranks the same"));
        // Neither do ranks with another reduction.
        setting.problem.settings.groups = {};
        setting.reduction = inner.rank() == 1 ? Reduction::native : Reduction::ordered;
        EXPECT_THAT(
            [&] { Rank rank(inner, setting); },
            ThrowsMessage<Error>("rank 1 was given another problem than rank 0: reduction is native "
                                 "where rank 0 has ordered; give all ranks the same"));
        setting.reduction = Reduction::ordered;
        // Settings without effect are no difference: norm, where nothing is clipped.
        setting.problem.settings.groups = {2, 1};
        if (inner.rank() == 1) {
            setting.problem.settings.norm = problem::NormVersion::ascending;
            setting.density = problem::DensitySchedule::linear(1.0, 0.25, 10);
        }
        EXPECT_THAT([&] { Rank rank(inner, setting); },
                    ThrowsMessage<Error>(
                        "rank 1 was given another problem than rank 0: density is linear from 1 to "
                        "0.25 in 10 steps where rank 0 has 0.1; give all ranks the same"));
    });
}

} // namespace
} // namespace truestep::distributed::scape
