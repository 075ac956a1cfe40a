// Compares how blocks in the host's form treat exchanged values with the passes of distributed/, in
// every bit; and whole runs with payloads, groups and buckets.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/scape/buckets.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/gpu/communicators.hpp>
#include <truestep/gpu/scape/block_backend.hpp>

#include "algorithms/exchanged_values.hpp"
#include "algorithms/gather.hpp"
#include "block_mask.hpp"
#include "machine.hpp"
#include "support.hpp"

namespace truestep::gpu::scape {
namespace {

using problem::Payload;

class Exchanged : public testing::TestWithParam<Way> {
  protected:
    Machine machine{GetParam().threads, GetParam().seed};
};
INSTANTIATE_TEST_SUITE_P(Ways, Exchanged, testing::ValuesIn(ways), way_name);

constexpr int exponent = 126; // 2^-1 and more saturate
const Coding codings[] = {{Format::bf16, {}}, {Format::e5m2, distributed::element::e5m2_scale(exponent)}};

Index blocks_of(Index count) {
    return (count + tile - 1) / tile;
}
Index blocks_over(const problem::Range& range) {
    return blocks_of(range.end) - range.begin / tile;
}

/// Values of all kinds: subnormals, zeros of both signs, ties of the rounding, values that are too
/// large, infinities.
std::vector<float> of_all_kinds(std::mt19937_64& random, Index size) {
    std::vector<float> all = draw(all_data()[5], random, size);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::uint32_t sign = random() % 2 == 0 ? 0U : 0x8000'0000U;
        if (i % 5 == 1)
            all[i] = normal(random);
        if (i % 5 == 2) // halfway between two, of either format
            all[i] = std::bit_cast<float>(
                (0x3f00'0000U + static_cast<std::uint32_t>(random() % 64) * 0x10'0000U) |
                (random() % 2 == 0 ? 0x8000U : 0U));
        if (i % 5 == 3)
            all[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random() % 4) << 14U);
        if (i % 97 == 4)
            all[i] = std::numeric_limits<float>::infinity();
        all[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(all[i]) ^ sign);
    }
    return all;
}

/// Values as they travel, and what rounding takes, by the host.
struct ByHost {
    ByHost(const Coding& coding, const std::vector<float>& c)
        : p(c), lost(c.size()), sent(c.size() * (coding.format == Format::bf16 ? 2 : 1)) {
        const auto count = static_cast<Index>(c.size());
        if (coding.format == Format::bf16)
            distributed::host::to_bf16(0, count, p.data(), reinterpret_cast<std::uint16_t*>(sent.data()),
                                       lost.data());
        else
            distributed::host::to_e5m2(coding.scale, 0, count, p.data(), sent.data(), lost.data());
    }
    std::vector<float> p;
    std::vector<float> lost;
    std::vector<std::uint8_t> sent;
};

TEST_P(Exchanged, Fold) {
    std::mt19937_64 random(7);
    for (const Index size : sizes)
        for (const int workers : {1, 2, 3, 7}) {
            distributed::Scalars s = scalars();
            s.workers = static_cast<float>(workers);
            const auto parts = draw(all_data()[0], random, size * workers);
            std::vector<float> expected(static_cast<std::size_t>(size));
            std::vector<float> mean(expected.size(), 7.0F);
            distributed::host::fold(s, workers, 0, size, parts.data(), size, expected.data());
            machine.run<Fold>((size + tile - 1) / tile,
                              {s.workers, workers, size, parts.data(), mean.data()});
            ASSERT_EQ(bits(mean), bits(expected)) << size;
        }
}

TEST_P(Exchanged, WhatHasTravelledIsFoldedInTheOrderOfItsRanks) {
    std::mt19937_64 random(8);
    for (const Coding& coding : codings)
        for (const Index size : sizes)
            for (const int workers : {1, 3, 7}) {
                distributed::Scalars s = scalars();
                s.workers = static_cast<float>(workers);
                const ByHost all(coding, of_all_kinds(random, size * workers));
                std::vector<float> expected(static_cast<std::size_t>(size));
                std::vector<float> mean(expected.size(), 7.0F);
                if (coding.format == Format::bf16)
                    distributed::host::fold_bf16(s, workers, 0, size,
                                                 reinterpret_cast<const std::uint16_t*>(all.sent.data()),
                                                 size, expected.data());
                else
                    distributed::host::fold_e5m2(s, coding.scale, workers, 0, size, all.sent.data(), size,
                                                 expected.data());
                machine.run<FoldTravelled>(
                    blocks_of(size), {s.workers, workers, size, {coding, all.sent.data(), 0}, mean.data()});
                for (std::size_t i = 0; i < mean.size(); ++i) // a NaN is an infinity less an infinity
                    ASSERT_TRUE(std::bit_cast<std::uint32_t>(mean[i]) ==
                                    std::bit_cast<std::uint32_t>(expected[i]) ||
                                (std::isnan(mean[i]) && std::isnan(expected[i])))
                        << size << ' ' << mean[i] << ' ' << expected[i];
            }
}

/// The bits with NaN replaced: an infinite value has no rest.
std::vector<std::uint32_t> bits_but_of_nan(std::vector<float> of) {
    for (float& value : of)
        value = std::isnan(value) ? 1.0F : value;
    return bits(of);
}

TEST_P(Exchanged, APayloadIsRoundedAsTheHostRoundsItAndTheRestIsInTheResidual) {
    std::mt19937_64 random(9);
    for (const Coding& coding : codings)
        for (const Index size : sizes)
            for (const double density : densities) {
                const Mask mask = random_mask(random, size, density);
                BlockMask here(machine, mask);
                const auto c = of_all_kinds(random, mask.selected());
                const ByHost expected(coding, c);
                auto e = draw(all_data()[0], random, size);
                auto expected_e = e;
                distributed::host::spread(0, size, expected.lost.data(), mask, expected_e.data());
                auto payload = c;
                std::vector<std::uint8_t> sent(expected.sent.size(), 7);
                machine.run<RoundPayload>(
                    blocks_of(size), {coding, size, here.view(), payload.data(), sent.data(), e.data()});
                ASSERT_EQ(bits(payload), bits(expected.p)) << size << ' ' << density;
                ASSERT_EQ(sent, expected.sent);
                ASSERT_EQ(bits_but_of_nan(e), bits_but_of_nan(expected_e));

                std::ranges::fill(sent, std::uint8_t{7});
                payload = c;
                machine.run<WriteRounded>(blocks_of(mask.selected()),
                                          {coding, mask.selected(), payload.data(), sent.data()});
                ASSERT_EQ(sent, expected.sent);
                ASSERT_EQ(bits(payload), bits(c));
            }
}

TEST_P(Exchanged, TheGreatestScoreIsTheHosts) {
    std::mt19937_64 random(10);
    for (const Index size : sizes)
        for (const auto& data : all_data()) {
            const auto c = draw(data, random, size);
            Index less_greatest = 0;
            machine.run<GreatestScore>(blocks_of(size), {size, c.data(), &less_greatest});
            ASSERT_EQ(-less_greatest, Index{distributed::host::greatest_score_of(0, size, c.data())});
        }
}

/// Within a tile and over several, from a word's edge and beside it.
std::vector<problem::Range> parts_of(Index size) {
    std::vector<problem::Range> all;
    for (const Index begin : {Index{0}, Index{1}, Index{64}, Index{100}, tile - 1, tile, 2 * tile + 65})
        for (const Index length : {Index{1}, Index{63}, tile, 3 * tile + 5})
            if (begin + length <= size)
                all.push_back({begin, begin + length});
    all.push_back({0, size});
    return all;
}

TEST_P(Exchanged, MeansThatComeGoToTheirPlacesAndTheOwnerKeepsWhatTheyLost) {
    std::mt19937_64 random(11);
    for (const Index size : {Index{1}, Index{70}, tile + 1, 5 * tile + 77})
        for (const double density : densities) {
            const Mask mask = random_mask(random, size, density);
            BlockMask here(machine, mask);
            for (const problem::Range& where : parts_of(size))
                for (const Coding& coding : {codings[0], codings[1], Coding{Format::fp32, {}}}) {
                    const bool rounded = coding.format != Format::fp32;
                    const problem::Range own{where.begin + where.size() / 3, where.end - where.size() / 4};
                    const Index first = 3;
                    const Index count = mask.offset(where.end) - mask.offset(where.begin);
                    const auto made = draw(all_data()[0], random, first + count);
                    const ByHost sent(rounded ? coding : codings[0], made);
                    const auto moment = draw(all_data()[0], random, mask.selected());
                    const auto e = draw(all_data()[0], random, size);
                    auto expected = moment;
                    auto expected_e = e;
                    Index from = first;
                    for (Index at = where.begin; at < where.end; ++at) {
                        if (!mask.test(at))
                            continue;
                        const auto i = static_cast<std::size_t>(from++);
                        const float mean = rounded ? sent.p[i] : made[i];
                        expected[static_cast<std::size_t>(mask.offset(at))] = mean;
                        if (rounded && at >= own.begin && at < own.end) {
                            float& kept = expected_e[static_cast<std::size_t>(at)];
                            kept = kept + ((made[i] - mean) * 3.0F);
                        }
                    }
                    auto here_moment = moment;
                    auto here_e = e;
                    machine.run<TakeMeans>(
                        blocks_over(where),
                        {coding, size, where.begin, where.end, first, rounded ? own.begin : 0,
                         rounded ? own.end : 0, 3.0F, here.view(),
                         rounded ? static_cast<const void*>(sent.sent.data()) : made.data(), made.data(),
                         here_moment.data(), here_e.data()});
                    ASSERT_EQ(bits(here_moment), bits(expected)) << size << ' ' << where.begin;
                    ASSERT_EQ(bits(here_e), bits(expected_e));
                }
        }
}

TEST_P(Exchanged, CIsGatheredOnTheComingMaskAndWhatIsTooLargeIsFound) {
    std::mt19937_64 random(12);
    for (const Index size : {Index{1}, Index{70}, tile + 1, 5 * tile + 77})
        for (const double density : {0.01, 0.3, 1.0})
            for (const bool added : {false, true}) {
                const Mask last = random_mask(random, size, density);
                const Mask coming = random_mask(random, size, density);
                BlockMask last_here(machine, last);
                BlockMask coming_here(machine, coming);
                const auto sum = draw(all_data()[0], random, size);
                const auto g = draw(all_data()[0], random, size);
                auto e = draw(all_data()[0], random, size);
                const auto m = draw(all_data()[0], random, last.selected());
                const auto by_host = [&](const problem::Range& where, float* payload) {
                    distributed::host::gather(scalars(), where.begin, where.end,
                                              added ? sum.data() : nullptr, g.data(), e.data(), last,
                                              m.data(), coming, payload);
                };
                const Sources from{scalars(),        added ? sum.data() : nullptr,
                                   g.data(),         e.data(),
                                   last_here.view(), m.data()};
                for (const problem::Range& where : parts_of(size)) {
                    const Index count = coming.offset(where.end) - coming.offset(where.begin);
                    std::vector<float> expected(static_cast<std::size_t>(count) + 2, 7.0F);
                    auto payload = expected;
                    by_host(where, expected.data() + 1);
                    machine.run<Gather>(blocks_over(where), {from, size, where.begin, where.end, 1,
                                                             coming_here.view(), payload.data()});
                    ASSERT_EQ(bits(payload), bits(expected)) << size << ' ' << where.begin;
                }
                Index expected = size;
                for (int tries = 0; tries < 4; ++tries) {
                    const auto at = static_cast<Index>(random() % static_cast<std::uint64_t>(size));
                    e[static_cast<std::size_t>(at)] = -0x1.FFp127F; // refused by its score alone
                    if (coming.test(at))
                        expected = std::min(expected, at);
                }
                Index first = size;
                machine.run<FirstOverflow>(blocks_of(size), {from, size, coming_here.view(), &first});
                ASSERT_EQ(first, expected);
            }
}

struct Setting {
    Payload payload;
    problem::Groups groups;
    bool in_parts;
    Exchange exchange;
};

/// Compares blocks with the host over a run of several ranks, step by step.
void equals_the_host(const Setting& setting) {
    constexpr int workers = 3;
    problem::HyperParameters hyper;
    hyper.clip_norm = setting.in_parts ? 0.7 : 0.0;
    hyper.payload = setting.payload;
    hyper.groups = setting.groups;
    const problem::Layout layout(
        {{"embed", 9500, false}, {"norm", 33, true}, {"gate", 1, false}, {"tiny", 7, false}});
    const auto problem = problem::make_problem(problem::Algorithm::scape, workers, layout,
                                               problem::PartitionRule::by_shard, hyper);
    const auto ranges = problem::ranges(layout, workers, problem::PartitionRule::by_shard);
    const auto density = problem::DensitySchedule::constant(0.1);
    distributed::run_ranks(workers, [&](distributed::Communicator& ranks) {
        std::mt19937_64 same(1);
        const auto w = draw(all_data()[0], same, layout.size());
        distributed::scape::Scape host(problem, ranges, density,
                                       distributed::scape::make_host_backend(problem, w), ranks, {});
        const BlockOptions options{128, 9 + static_cast<std::uint64_t>(ranks.rank()), 2, setting.exchange};
        const HostStream stream = make_block_stream(options);
        const auto own =
            setting.exchange == Exchange::device ? make_block_communicator(ranks, stream) : nullptr;
        distributed::scape::Scape blocks(problem, ranges, density,
                                         make_block_backend(problem, w, options, stream),
                                         own ? *own : ranks, {.largest_piece = 50});
        std::mt19937_64 random(static_cast<std::uint64_t>(ranks.rank()) + 2);
        for (int step = 0; step < 5; ++step) {
            const auto first = draw(all_data()[0], random, layout.size());
            const auto last = draw(all_data()[0], random, layout.size(), step == 3 ? 1000.0F : 1.0F);
            for (distributed::scape::Scape* optimizer : {&host, &blocks}) {
                if (setting.in_parts) {
                    auto given = first; // which the caller may write over
                    optimizer->accumulate(given);
                    std::ranges::fill(given, std::numeric_limits<float>::quiet_NaN());
                    for (const auto& bucket : distributed::scape::buckets_of(layout, 400))
                        optimizer->bucket(bucket, last);
                }
                optimizer->step(last, 1e-3);
            }
            EXPECT_EQ(bits(host.parameters()), bits(blocks.parameters()));
            EXPECT_EQ(bits(host.residual()), bits(blocks.residual()));
            EXPECT_EQ(bits(host.moment()), bits(blocks.moment()));
            EXPECT_EQ(bits(host.mask()), bits(blocks.mask()));
            EXPECT_EQ(host.statistics().gradient_norm, blocks.statistics().gradient_norm);
            EXPECT_EQ(host.statistics().sent, blocks.statistics().sent);
            EXPECT_EQ(host.statistics().exponent, blocks.statistics().exponent);
            EXPECT_EQ(host.exponent(), blocks.exponent());
        }
        EXPECT_EQ(bits(host.coming_mask()), bits(blocks.coming_mask()));
    });
}

TEST(ExchangedRuns, BlocksEqualTheHostWithPayloadsGroupsAndBuckets) {
    for (const Exchange exchange : {Exchange::host, Exchange::device})
        for (const Payload payload :
             {Payload::fp32, Payload::bf16, Payload::e5m2, Payload::bf16_both, Payload::e5m2_both})
            for (const auto& groups : {problem::Groups{}, problem::Groups{2, 1}})
                for (const bool in_parts : {false, true}) {
                    SCOPED_TRACE(std::string(problem::name(payload)) + (groups.empty() ? "" : ", groups") +
                                 (in_parts ? ", parts" : "") +
                                 (exchange == Exchange::device ? ", streams" : ""));
                    equals_the_host({payload, groups, in_parts, exchange});
                }
}

/// The greatest bf16 value passes. Half a step more is refused on all ranks, with its value, and
/// the state stays unchanged.
TEST(ExchangedRuns, WhatBf16DoesNotHoldRefusesTheStep) {
    problem::HyperParameters hyper;
    hyper.payload = Payload::bf16;
    hyper.bias_correction = problem::BiasCorrection::none; // u is 0 where v overflows
    const problem::Layout layout({{"all", 300, false}});
    const auto problem = problem::make_problem(problem::Algorithm::scape, 2, layout,
                                               problem::PartitionRule::by_shard, hyper);
    const auto ranges = problem::ranges(layout, 2, problem::PartitionRule::by_shard);
    distributed::run_ranks(2, [&](distributed::Communicator& ranks) {
        const std::vector<float> w(300, 1.0F);
        const std::vector<float> zeros(300, 0.0F);
        distributed::scape::Scape blocks(problem, ranges, problem::DensitySchedule::constant(0.1),
                                         make_block_backend(problem, w), ranks, {});
        blocks.step(zeros, 1e-3);
        distributed::scape::RankState state = blocks.state();
        Index at = 0;
        while (!state.coming.test(at))
            ++at;
        auto& c = state.residual[static_cast<std::size_t>(at)];
        for (const float too_large : {0x1.FFp127F, 0x1.FEFFFEp127F}) {
            c = ranks.rank() == 1 ? too_large : 0.0F;
            blocks.restore(state);
            if (too_large < 0x1.FFp127F) {
                EXPECT_NO_THROW(blocks.step(zeros, 1e-3));
                continue;
            }
            try {
                blocks.step(zeros, 1e-3);
                ADD_FAILURE() << "not refused";
            } catch (const distributed::scape::RefusedStep& refused) {
                EXPECT_EQ(refused.rank, 1);
                EXPECT_EQ(refused.index, at);
                EXPECT_EQ(refused.value, too_large);
            }
            EXPECT_EQ(bits(blocks.residual()), bits(state.residual));
        }
        static_cast<void>(blocks.coming_mask());
    });
}

} // namespace
} // namespace truestep::gpu::scape
