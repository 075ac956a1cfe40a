// Payloads of bf16 and e5m2 (section 21), over ranks.
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <truestep/distributed/scape/checkpoint.hpp>
#include <truestep/optimizer.hpp>
#include <truestep/verify/report.hpp>

#include "sharded_support.hpp"

namespace truestep::distributed::scape {
namespace {

/// A path of this process alone, because ctest runs several of these at a time.
std::filesystem::path own_place(const std::string& name) {
    return std::filesystem::path(testing::TempDir()) / (std::to_string(getpid()) + "_" + name);
}

using problem::PartitionRule;

problem::HyperParameters in_bf16(double clip_norm = 0.0) {
    problem::HyperParameters hyper;
    hyper.clip_norm = clip_norm;
    hyper.payload = problem::Payload::bf16;
    return hyper;
}

problem::HyperParameters in_e5m2(double clip_norm = 0.0) {
    problem::HyperParameters hyper = in_bf16(clip_norm);
    hyper.payload = problem::Payload::e5m2;
    return hyper;
}

class PayloadOfRanks : public testing::TestWithParam<std::tuple<problem::Payload, int>> {};

TEST_P(PayloadOfRanks, EqualsTheReferenceInEveryBit) {
    const auto [payload, workers] = GetParam();
    for (const auto data : {problem::DataClass::normal, problem::DataClass::wide,
                            problem::DataClass::subnormal, problem::DataClass::ties})
        for (const int threads : {1, 3}) {
            auto hyper = in_bf16(workers == 3 ? 0.5 : 0.0);
            hyper.payload = payload;
            auto setting = make_setting(workers, workers == 2 ? 1.0 : 0.1, PartitionRule::by_shard, hyper);
            setting.data = data;
            setting.threads = threads;
            setting.largest_piece = workers == 8 ? 7 : 0;
            const auto path = own_place("payload.safetensors");
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

INSTANTIATE_TEST_SUITE_P(All, PayloadOfRanks,
                         testing::Combine(testing::Values(problem::Payload::bf16, problem::Payload::e5m2,
                                                          problem::Payload::bf16_both,
                                                          problem::Payload::e5m2_both),
                                          testing::Values(1, 2, 3, 8)));

void expect_bytes(problem::Payload payload, std::uint64_t of_a_value, std::uint64_t of_a_mean) {
    problem::HyperParameters hyper;
    hyper.payload = payload;
    constexpr int workers = 8;
    constexpr Index d = 80'000;
    const auto setting =
        make_setting(workers, 0.01, PartitionRule::by_shard, hyper, problem::Layout({{"all", d, false}}));
    run_ranks(workers, [&](Communicator& inner) {
        Rank rank(inner, setting);
        for (Index step = 1; step <= 3; ++step) {
            rank.counting().reset();
            rank.step(step);
            constexpr std::uint64_t k = d / 100;
            EXPECT_EQ(rank.counting().bytes(Traffic::payload), of_a_value * k * (workers - 1) / workers);
            EXPECT_EQ(rank.counting().bytes(Traffic::moment), of_a_mean * k * (workers - 1) / workers);
            EXPECT_EQ(rank.optimizer().statistics().sent, rank.counting().bytes());
        }
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(PayloadTest, HalvesTheBytesThatGoToTheOwnersAndHalvesThemAgain) {
    expect_bytes(problem::Payload::bf16, 2, 4);
    expect_bytes(problem::Payload::e5m2, 1, 4);
}

TEST(PayloadTest, MeansThatAreRoundedComeBackInAsFewBytes) {
    expect_bytes(problem::Payload::bf16_both, 2, 2);
    expect_bytes(problem::Payload::e5m2_both, 1, 1);
}

/// The first coordinate that the next step sends.
std::size_t first_of(const Mask& mask) {
    Index i = 0;
    while (!mask.test(i))
        ++i;
    return static_cast<std::size_t>(i);
}

TEST(PayloadTest, WhatWouldOverflowIsRefusedOnAllRanksAndChangesNothing) {
    constexpr float halfway = 0x1.FFp127F; // from the greatest bf16 to 2^128
    problem::HyperParameters hyper = in_bf16();
    hyper.bias_correction = problem::BiasCorrection::none; // which would make an infinity of a large M
    const auto setting = make_setting(3, 0.1, PartitionRule::by_shard, hyper);
    run_ranks(3, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        RankState state = rank.optimizer().state();
        const std::size_t at = first_of(state.coming);
        const float good = state.residual[at];
        if (inner.rank() > 0)
            state.residual[at] = halfway; // c is the same: the other terms are lost beside it
        rank.optimizer().restore(state);
        try {
            rank.step(2);
            ADD_FAILURE() << "not refused on rank " << inner.rank();
        } catch (const RefusedStep& refused) {
            EXPECT_EQ(refused.rank, 1);
            EXPECT_EQ(refused.index, static_cast<Index>(at));
            EXPECT_EQ(refused.value, halfway);
            EXPECT_NE(std::string(refused.what()).find("a payload of bf16 holds nothing beyond"),
                      std::string::npos);
        }
        RankState after = rank.optimizer().state();
        EXPECT_EQ(after.step, 1);
        EXPECT_EQ(after.residual, state.residual);
        EXPECT_EQ(after.parameters, state.parameters);
        EXPECT_EQ(after.packed_moment, state.packed_moment);

        // A refused gradient comes first, whatever its rank.
        auto g = rank.gradient(2);
        if (inner.rank() == 2)
            g[7] = INFINITY;
        try {
            rank.optimizer().step(g, 0.01);
            ADD_FAILURE() << "not refused on rank " << inner.rank();
        } catch (const RefusedStep& refused) {
            EXPECT_EQ(refused.rank, 2);
            EXPECT_EQ(refused.index, 7);
        }

        // One float less rounds to the greatest bf16, and travels.
        after.residual[at] = inner.rank() == 1 ? std::nextafter(halfway, 0.0F) : good;
        rank.optimizer().restore(after);
        EXPECT_NO_THROW(rank.step(2));
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(PayloadTest, ACheckpointKeepsWhatStaysOnTheMaskForAsManyAndOtherRanks) {
    const auto folder = own_place("payload_checkpoint");
    std::filesystem::remove_all(folder);
    std::vector<std::vector<float>> residuals(3);
    run_ranks(3, [&](Communicator& inner) {
        Rank rank(inner, make_setting(3, 0.1, PartitionRule::by_shard, in_bf16()));
        rank.step(1);
        rank.step(2);
        const RankState state = rank.optimizer().state();
        residuals[static_cast<std::size_t>(inner.rank())] = state.residual;
        EXPECT_NE(state.residual[first_of(state.current)], 0.0F) << "nothing stayed on the mask";
        static_cast<void>(save_checkpoint(rank.optimizer(), inner, folder));
    });
    for (const int workers : {3, 2})
        run_ranks(workers, [&](Communicator& inner) {
            Rank rank(inner, make_setting(workers, 0.1, PartitionRule::by_shard, in_bf16()));
            restore_checkpoint(rank.optimizer(), inner, latest_checkpoint(folder).value());
            const RankState state = rank.optimizer().state();
            for (std::size_t i = 0; i < state.residual.size(); ++i) {
                const float mean = ((residuals[0][i] + residuals[1][i]) + residuals[2][i]) / 3.0F;
                ASSERT_EQ(state.residual[i],
                          workers == 3 ? residuals[static_cast<std::size_t>(inner.rank())][i] : mean);
            }
            // Another payload is another run.
            Rank other(inner, make_setting(workers, 0.1, PartitionRule::by_shard));
            EXPECT_THROW(restore_checkpoint(other.optimizer(), inner, latest_checkpoint(folder).value()),
                         Error);
        });
    std::filesystem::remove_all(folder);
}

/// A step whose c has grown a million times since the last: all values saturate, and nothing is
/// lost.
TEST(PayloadTest, WhatSaturatesStaysInTheResidualAndTheNextScaleHoldsIt) {
    const auto setting = make_setting(2, 1.0, PartitionRule::by_shard, in_e5m2());
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        const auto d = static_cast<std::size_t>(setting.problem.layout.size());
        const auto a1 = static_cast<float>(1.0 - setting.problem.settings.beta1);
        const auto step = [&](float g) {
            rank.optimizer().step(std::vector<float>(d, g), 0.01);
            static_cast<void>(rank.optimizer().coming_mask());
        };
        step(1.0F);
        EXPECT_EQ(rank.optimizer().exponent(), -4) << "of 0.1";
        const float greatest = 1.75F * 0x1p-4F;
        const std::vector<float> m = rank.optimizer().moment();
        const std::vector<float> e(rank.optimizer().residual().begin(), rank.optimizer().residual().end());
        step(0x1p20F);
        const float c = ((0.9F * m[0]) + (a1 * 0x1p20F)) + e[0];
        EXPECT_EQ(rank.optimizer().moment()[0], greatest);
        EXPECT_EQ(rank.optimizer().residual()[0], c - greatest);
        EXPECT_EQ(rank.optimizer().exponent(), 16);
        step(0.0F);
        EXPECT_GT(rank.optimizer().moment()[0], 0x1p16F);
    });
}

/// A first step of zeros has the least scale, so the next step sends almost nothing.
TEST(PayloadTest, TheScaleOfAFirstStepOfZerosIsTheLeast) {
    const auto setting = make_setting(1, 1.0, PartitionRule::by_shard, in_e5m2());
    run_ranks(1, [&](Communicator& inner) {
        Rank rank(inner, setting);
        const auto d = static_cast<std::size_t>(setting.problem.layout.size());
        rank.optimizer().step(std::vector<float>(d, 0.0F), 0.01);
        EXPECT_EQ(rank.optimizer().exponent(), -126 - RankState::kept);
        rank.optimizer().step(std::vector<float>(d, 1.0F), 0.01);
        EXPECT_EQ(rank.optimizer().statistics().exponent, -126);
        EXPECT_EQ(rank.optimizer().moment()[0], 1.75F * 0x1p-126F);
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

/// Density 1 and beta1 = 0: c is the gradient where E5M2 has held everything before.
CheckSetting of_gradients(int workers) {
    auto hyper = in_e5m2();
    hyper.beta1 = 0.0;
    return make_setting(workers, 1.0, PartitionRule::by_shard, hyper);
}

void take(Rank& rank, float g) {
    const auto d = static_cast<std::size_t>(rank.optimizer().problem().layout.size());
    rank.optimizer().step(std::vector<float>(d, g), 0.01);
    static_cast<void>(rank.optimizer().coming_mask());
}

TEST(PayloadTest, AStepOfZerosLeavesTheScaleAsItWasAndWhateverRanksGoOn) {
    const auto folder = own_place("payload_zeros");
    for (const float quiet : {0.0F, -0.0F, 0x1p-127F}) {
        std::filesystem::remove_all(folder);
        run_ranks(3, [&](Communicator& inner) {
            Rank rank(inner, of_gradients(3));
            take(rank, 1.5F);
            EXPECT_EQ(rank.optimizer().exponent(), 0);
            take(rank, quiet);
            EXPECT_EQ(rank.optimizer().exponent(), 0 - RankState::kept);
            static_cast<void>(save_checkpoint(rank.optimizer(), inner, folder));
            take(rank, 1.25F);
            EXPECT_EQ(rank.optimizer().statistics().exponent, 0);
            EXPECT_EQ(rank.optimizer().moment()[0], 1.25F);
        });
        for (const int workers : {3, 2, 4})
            run_ranks(workers, [&](Communicator& inner) {
                Rank rank(inner, of_gradients(workers));
                restore_checkpoint(rank.optimizer(), inner, latest_checkpoint(folder).value());
                take(rank, 1.25F);
                EXPECT_EQ(rank.optimizer().statistics().exponent, 0);
                EXPECT_EQ(rank.optimizer().moment()[0], 1.25F);
            });
    }
    std::filesystem::remove_all(folder);
}

/// The scale falls to what one rank still has, although the other ranks remember a far greater one.
TEST(PayloadTest, WhoHasNothingDoesNotKeepTheOthersScale) {
    const auto folder = own_place("payload_one_has_some");
    std::filesystem::remove_all(folder);
    run_ranks(3, [&](Communicator& inner) {
        Rank rank(inner, of_gradients(3));
        take(rank, 1.5F);
        take(rank, inner.rank() == 1 ? 0x1p-7F : 0.0F);
        EXPECT_EQ(rank.optimizer().exponent(), inner.rank() == 1 ? -7 : 0 - RankState::kept);
        static_cast<void>(save_checkpoint(rank.optimizer(), inner, folder));
        take(rank, 1.25F);
        EXPECT_EQ(rank.optimizer().moment()[0], 1.75F * 0x1p-7F);
    });
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, of_gradients(2));
        restore_checkpoint(rank.optimizer(), inner, latest_checkpoint(folder).value());
        EXPECT_EQ(rank.optimizer().state().exponent, -7);
        RankState state = rank.optimizer().state();
        for (const int none : {128, -127, -127 - RankState::kept}) {
            state.exponent = none;
            EXPECT_THROW(rank.optimizer().restore(state), Error) << none;
        }
    });
    std::filesystem::remove_all(folder);
}

TEST(PayloadTest, ACheckpointKeepsTheScaleForAsManyAndOtherRanks) {
    const auto folder = own_place("payload_scale");
    std::filesystem::remove_all(folder);
    std::vector<int> exponents(3);
    run_ranks(3, [&](Communicator& inner) {
        Rank rank(inner, make_setting(3, 0.1, PartitionRule::by_shard, in_e5m2()));
        // One rank's values are the largest by far.
        auto g = rank.gradient(1);
        for (float& value : g)
            value *= inner.rank() == 1 ? 0x1p30F : 1.0F;
        rank.optimizer().step(g, 0.01);
        exponents[static_cast<std::size_t>(inner.rank())] = rank.optimizer().exponent();
        static_cast<void>(save_checkpoint(rank.optimizer(), inner, folder));
    });
    EXPECT_GT(exponents[1], exponents[0] + 20);
    for (const int workers : {3, 2})
        run_ranks(workers, [&](Communicator& inner) {
            Rank rank(inner, make_setting(workers, 0.1, PartitionRule::by_shard, in_e5m2()));
            restore_checkpoint(rank.optimizer(), inner, latest_checkpoint(folder).value());
            EXPECT_EQ(rank.optimizer().state().exponent, exponents[1]);
            RankState state = rank.optimizer().state();
            state.exponent = 128;
            EXPECT_THROW(rank.optimizer().restore(state), Error);
        });
    std::filesystem::remove_all(folder);
}

TEST(PayloadTest, NativeReductionAndAdamSAreRefused) {
    auto setting = make_setting(2, 0.1, PartitionRule::by_shard, in_bf16());
    setting.reduction = Reduction::native;
    run_ranks(2, [&](Communicator& inner) {
        try {
            const Rank rank(inner, setting);
            ADD_FAILURE() << "not refused";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("payload is 'bf16'; it is folded by its owners"),
                      std::string::npos);
        }
    });
    EXPECT_THROW(static_cast<void>(make_setting(2, 0.1, PartitionRule::by_shard, in_bf16(), small_model(),
                                                problem::Algorithm::adams)),
                 Error);
}

} // namespace
} // namespace truestep::distributed::scape
