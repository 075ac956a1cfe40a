// Tests that the step that the benchmarks time is a correct step: compared with the host's backend,
// in the host's form of blocks.
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/gpu/scape/block_backend.hpp>

#include "gpu/rank.hpp"

namespace truestep::gpu::bench {
namespace {

void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0)
        std::memcpy(to, from, bytes);
}

TEST(LocalRank, BlocksEqualTheHost) {
    for (const int workers : {1, 3, 8})
        for (const double density : {0.1, 0.01})
            EXPECT_EQ(wrong_values(
                          Setting(70'001, density, workers),
                          [](const problem::Problem& problem, std::span<const float> w) {
                              return scape::make_block_backend(problem, w);
                          },
                          copy, 3),
                      0);
}

TEST(LocalRank, AWrongBackendIsCounted) {
    const Setting setting(20'000, 0.1, 2);
    const auto wrong = [](const problem::Problem& problem, std::span<const float> w) {
        problem::Problem other = problem;
        std::vector<float> parameters(w.begin(), w.end());
        parameters[5] = 2.0F;
        return distributed::scape::make_host_backend(other, parameters);
    };
    EXPECT_EQ(wrong_values(setting, wrong, copy, 3), 3) << "one parameter, in each step";
}

TEST(LocalRank, AStepThatGoesWrongIsAnError) {
    const Setting setting(1'000, 0.1, 2);
    std::vector<float> values(1'000, 1.0F);
    LocalRank scout(setting, distributed::scape::make_host_backend(setting.problem, values), copy);
    LocalRank rank(setting, distributed::scape::make_host_backend(setting.problem, values), copy);
    rank.start(scout.scout(values.data()), values.data());
    values[3] = 0x1p60F;
    EXPECT_THROW(rank.run(Phase::check, values.data()), std::runtime_error);
}

TEST(LeastBytes, ByHand) {
    // 8 ranks of 2^17, one tensor: k = floor(0.1 * 2^17) = 13107 each.
    const Setting setting(Index{1} << 20, 0.1, 8);
    ASSERT_EQ(setting.shard, 131'072);
    ASSERT_EQ(setting.own_selected, 13'107);
    ASSERT_EQ(setting.selected, 8 * 13'107);
    ASSERT_EQ(setting.own_code, 515U + 13'107U) << "positions: 131072 / 255 counts, and a byte for each";
    constexpr double d = 1'048'576.0;
    constexpr double k = 8 * 13'107.0;
    EXPECT_EQ(least_bytes(Phase::check, setting), 4 * d);
    EXPECT_EQ(least_bytes(Phase::local_pass, setting), 12 * d + d / 4 + 12 * k);
    EXPECT_EQ(least_bytes(Phase::select, setting),
              4 * 131'072.0 + 131'072.0 / 4 + 4 * 13'107.0 + 515.0 + 13'107.0);
    EXPECT_EQ(least_bytes(Phase::fold, setting), 4 * 13'107.0 * 9);
    EXPECT_EQ(least_bytes(Phase::update, setting), 8 * d + d / 8 + 8 * k);
    EXPECT_EQ(least_bytes(Phase::decode, setting), 8 * (515.0 + 13'107.0) + d / 8 + d / 32);
    double sum = 0.0;
    for (const Phase phase : {Phase::local_pass, Phase::select, Phase::fold, Phase::update, Phase::decode})
        sum += least_bytes(phase, setting);
    EXPECT_EQ(least_bytes_of_step(setting), sum);
}

TEST(Setting, CutsLargeModelsIntoTensors) {
    const Setting setting((Index{1} << 25) + 3, 0.01, 8);
    EXPECT_EQ(setting.problem.layout.tensors().size(), 3U);
    EXPECT_EQ(setting.size, setting.problem.layout.size());
    EXPECT_EQ(setting.all.back().end, setting.size);
}

} // namespace
} // namespace truestep::gpu::bench
