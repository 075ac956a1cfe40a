// Tests means that their owner rounds (section 21), over ranks; payload_test.cpp compares them with
// the reference.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sharded_support.hpp"

namespace truestep::distributed::scape {
namespace {

using problem::PartitionRule;

problem::HyperParameters in_bf16_both() {
    problem::HyperParameters hyper;
    hyper.payload = problem::Payload::bf16_both;
    return hyper;
}

/// bf16 has 256 and 258, but not their mean: it rounds to 256, the even one, and the owner keeps 1
/// for each rank.
TEST(RoundedMeansTest, WhatTheMeanLosesIsInItsOwnersResidualAlone) {
    auto hyper = in_bf16_both();
    hyper.beta1 = 0.0; // c is the gradient
    const auto setting = make_setting(2, 1.0, PartitionRule::by_shard, hyper);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        const auto d = static_cast<std::size_t>(setting.problem.layout.size());
        rank.optimizer().step(std::vector<float>(d, inner.rank() == 0 ? 256.0F : 258.0F), 0.01);
        static_cast<void>(rank.optimizer().coming_mask());
        const problem::Range own = rank.optimizer().ranges()[static_cast<std::size_t>(inner.rank())];
        for (std::size_t i = 0; i < d; ++i) {
            const auto at = static_cast<Index>(i);
            ASSERT_EQ(rank.optimizer().moment()[i], 256.0F);
            ASSERT_EQ(rank.optimizer().residual()[i], at >= own.begin && at < own.end ? 2.0F : 0.0F) << i;
        }
    });
}

/// If one of two ranks has the greatest bf16, the mean is half of it, and no step is refused.
TEST(RoundedMeansTest, NoMeanOverflows) {
    problem::HyperParameters hyper = in_bf16_both();
    hyper.bias_correction = problem::BiasCorrection::none;
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard, hyper);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        RankState state = rank.optimizer().state();
        Index i = 0;
        while (!state.coming.test(i))
            ++i;
        const auto at = static_cast<std::size_t>(i);
        state.residual[at] = inner.rank() == 0 ? 0x1.FEp127F : 0.0F;
        rank.optimizer().restore(state);
        EXPECT_NO_THROW(rank.step(2));
        EXPECT_EQ(rank.optimizer().moment()[at], 0x1.FEp126F);
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(RoundedMeansTest, SegmentsOutsideOfTheirOwnersRangesAreRefusedWhereMeansAreRounded) {
    auto setting = make_setting(2, 0.1, PartitionRule::by_shard, in_bf16_both());
    std::swap(setting.problem.segments.front().owner, setting.problem.segments.back().owner);
    run_ranks(2, [&](Communicator& inner) {
        try {
            const Rank rank(inner, setting);
            ADD_FAILURE() << "not refused";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("outside its owner's range"), std::string::npos);
        }
    });
    setting.problem.settings.payload = problem::Payload::bf16;
    run_ranks(2, [&](Communicator& inner) { EXPECT_NO_THROW(Rank(inner, setting)); });
}

} // namespace
} // namespace truestep::distributed::scape
