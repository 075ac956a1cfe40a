// Tests refusals, halting and wrong use.
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/optimizer.hpp>

#include "sharded_support.hpp"

namespace truestep::distributed::scape {
namespace {

using problem::PartitionRule;

TEST(Refusal, LeavesEveryBitOnEveryRankAndTheNextGoodStepWorks) {
    const auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 0x1.000002p56F})
        for (const Index at_step : {Index{1}, Index{3}}) {
            std::mutex mutex;
            run_ranks(3, [&](Communicator& inner) {
                Rank rank(inner, setting);
                Rank untouched(inner, setting);
                for (Index step = 1; step < at_step; ++step) {
                    rank.step(step);
                    untouched.step(step);
                }
                auto g = rank.gradient(at_step);
                if (inner.rank() == 1)
                    g[4510] = bad;
                try {
                    rank.optimizer().step(g, 0.01);
                    ADD_FAILURE() << "not refused on rank " << inner.rank();
                } catch (const RefusedStep& refused) {
                    EXPECT_EQ(refused.rank, 1);
                    EXPECT_EQ(refused.index, 4510);
                    EXPECT_NE(std::string(refused.what()).find("rank 1, tensor norm, index 10"),
                              std::string::npos);
                }
                for (Index step = at_step; step <= at_step + 2; ++step) {
                    rank.step(step);
                    untouched.step(step);
                }
                const std::lock_guard lock(mutex);
                const RankState a = rank.optimizer().state();
                const RankState b = untouched.optimizer().state();
                EXPECT_EQ(a.parameters, b.parameters);
                EXPECT_EQ(a.residual, b.residual);
                EXPECT_EQ(a.packed_moment, b.packed_moment);
            });
        }
}

TEST(Refusal, AcceptsTheGreatestGradient) {
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        auto g = rank.gradient(1);
        g[0] = -0x1p56F;
        EXPECT_NO_THROW(rank.optimizer().step(g, 0.01));
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(Halting, NonFiniteParametersEndAllRanksUntilAStateIsRestored) {
    const auto setting = make_setting(2, 0.5, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        const RankState good = rank.optimizer().state();
        EXPECT_THROW(rank.optimizer().step(rank.gradient(2), 1e39), Halted);
        EXPECT_THROW(rank.step(3), Halted);
        rank.optimizer().restore(good);
        EXPECT_NO_THROW(rank.step(2));
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(WrongUse, RanksWithDifferentProblemsAreToldBeforeTheFirstStep) {
    EXPECT_THROW(run_ranks(3,
                           [&](Communicator& inner) {
                               problem::HyperParameters hyper;
                               hyper.beta1 = inner.rank() == 2 ? 0.95 : 0.9;
                               Rank rank(inner, make_setting(3, 0.1, PartitionRule::by_shard, hyper));
                           }),
                 Error);
}

TEST(WrongUse, RanksWithDifferentParametersAreToldBeforeTheFirstStep) {
    EXPECT_THROW(run_ranks(3,
                           [](Communicator& communicator) {
                               std::vector<float> parameters(100, 0.5F);
                               parameters[99] = communicator.rank() == 1 ? 0.25F : 0.5F;
                               static_cast<void>(make_optimizer(Layout({{"w", 100, false}}), {},
                                                                communicator, parameters));
                           }),
                 Error);
}

TEST(WrongUse, ParametersThatAreNotFiniteAreRefused) {
    run_ranks(2, [](Communicator& communicator) {
        std::vector<float> parameters(100, 0.5F);
        parameters[7] = std::numeric_limits<float>::quiet_NaN();
        EXPECT_THROW(
            static_cast<void>(make_optimizer(Layout({{"w", 100, false}}), {}, communicator, parameters)),
            Error);
    });
}

TEST(WrongUse, AWrongGradientSizeOrLearningRateChangesNothing) {
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        const RankState before = rank.optimizer().state();
        const auto g = rank.gradient(2);
        EXPECT_THROW(rank.optimizer().step(std::span(g).first(10), 0.01), Error);
        EXPECT_THROW(rank.optimizer().step(g, std::numeric_limits<double>::quiet_NaN()), Error);
        EXPECT_EQ(rank.optimizer().state().residual, before.residual);
        EXPECT_NO_THROW(rank.optimizer().step(g, 0.01));
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(WrongUse, AStateThatIsNotFiniteIsNeitherSavedNorRestored) {
    const auto setting = make_setting(2, 0.5, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        RankState bad = rank.optimizer().state();
        bad.residual[5] = std::numeric_limits<float>::infinity();
        EXPECT_THROW(rank.optimizer().restore(bad), Error);
        EXPECT_THROW(rank.optimizer().step(rank.gradient(2), 1e39), Halted);
        EXPECT_THROW(static_cast<void>(rank.optimizer().state()), Halted);
        EXPECT_THROW(static_cast<void>(rank.optimizer().coming_mask()), Halted);
    });
}

TEST(WrongUse, RanksThatRestoredDifferentStatesAreToldBeforeTheNextStep) {
    const auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    for (const bool in_buckets : {false, true})
        for (const bool all_restore : {false, true})
            run_ranks(3, [&](Communicator& inner) {
                Rank rank(inner, setting);
                rank.step(1);
                const RankState earlier = rank.optimizer().state();
                rank.step(2);
                const RankState later = rank.optimizer().state();
                if (inner.rank() == 1)
                    rank.optimizer().restore(earlier);
                else if (all_restore)
                    rank.optimizer().restore(later);
                try {
                    if (in_buckets)
                        rank.optimizer().bucket(std::vector<std::size_t>{4}, rank.gradient(3));
                    else
                        rank.step(3);
                    ADD_FAILURE() << "rank " << inner.rank() << " goes on";
                } catch (const Error& error) {
                    EXPECT_NE(
                        std::string(error.what()).find("rank 1 has restored another state than rank 0"),
                        std::string::npos)
                        << error.what();
                }
                rank.optimizer().restore(later);
                rank.step(3);
                EXPECT_EQ(rank.optimizer().steps(), 3);
            });
}

TEST(WrongUse, AnotherNumberOfRanksThanWorkersIsRefused) {
    EXPECT_THROW(run_ranks(2,
                           [&](Communicator& inner) {
                               Rank rank(inner, make_setting(3, 0.1, PartitionRule::by_shard));
                           }),
                 Error);
}

} // namespace
} // namespace truestep::distributed::scape
