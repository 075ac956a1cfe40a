// Compares block algorithms in the host's form with the passes of distributed/, in every bit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/kernels.hpp>

#include "algorithms/local.hpp"
#include "algorithms/mask.hpp"
#include "algorithms/update.hpp"
#include "block_mask.hpp"
#include "machine.hpp"
#include "support.hpp"

namespace truestep::gpu::scape {
namespace {

using problem::BiasCorrection;

class Blocks : public testing::TestWithParam<Way> {
  protected:
    Machine machine{GetParam().threads, GetParam().seed};
};
INSTANTIATE_TEST_SUITE_P(Ways, Blocks, testing::ValuesIn(ways), way_name);

TEST_P(Blocks, PlacesInAMaskAreThoseOfTheMask) {
    std::mt19937_64 random(2);
    for (const Index size : sizes)
        for (const double density : densities) {
            const Mask mask = random_mask(random, size, density);
            BlockMask here(machine, mask);
            ASSERT_EQ(here.offsets.data()[here.offsets.size() - 1], mask.selected());
            for (Index at = 0; at<size; at += size> 10'000 ? 61 : 1)
                ASSERT_EQ(before(here.view(), at), mask.offset(at)) << at << " of " << size;
        }
}

TEST(Guess, GoesOnAsTheThresholdWentUnlessItJumped) {
    constexpr std::uint32_t one = 0x3f80'0000;
    EXPECT_EQ(guess_from(one, 0), one) << "nothing is known";
    EXPECT_EQ(guess_from(one + 1000, one + 1), one + 2000);
    EXPECT_EQ(guess_from(one - 1000, one + 1), one - 2000);
    EXPECT_EQ(guess_from(one + (1U << 22U), one + 1), one + (1U << 22U));
    EXPECT_EQ(guess_from(5, 1005), 5U) << "no number below zero";
    EXPECT_EQ(guess_from(greatest_key, greatest_key - 1000), greatest_key) << "and none that no score has";
}

TEST_P(Blocks, InCommon) {
    std::mt19937_64 random(4);
    for (const Index size : {1, 64, 300'001}) {
        const Mask a = random_mask(random, size, 0.4);
        const Mask b = random_mask(random, size, 0.4);
        Index expected = 0;
        for (Index i = 0; i < size; ++i)
            expected += a.test(i) && b.test(i) ? 1 : 0;
        Index common = 0;
        const auto count = static_cast<Index>(a.word_count());
        machine.run<InCommon>((count + InCommon::words - 1) / InCommon::words,
                              {a.words(), b.words(), count, &common});
        EXPECT_EQ(common, expected);
    }
}

TEST_P(Blocks, FirstRefusedIsTheFirst) {
    std::mt19937_64 random(5);
    constexpr float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                             -std::numeric_limits<float>::infinity(), 0x1.000002p56F};
    for (const Index size : sizes)
        for (const Index at : {Index{0}, size / 2, size - 1, size}) {
            std::vector<float> g = draw(all_data()[0], random, size + 1);
            for (Index i = at; i < size; i += i == at ? 1 : 1 + static_cast<Index>(random() % 99))
                if (i >= 0)
                    g[static_cast<std::size_t>(i)] = bad[random() % 3];
            Index first = size;
            machine.run<FirstRefused>((size + tile - 1) / tile, {g.data(), size, &first});
            ASSERT_EQ(first, distributed::host::first_unacceptable(g.data(), 0, size))
                << at << " of " << size;
        }
}

TEST_P(Blocks, LocalPassAndExtract) {
    std::mt19937_64 random(6);
    for (const Index size : sizes)
        for (const double last_density : densities)
            for (const double density : densities)
                for (const Index unaligned : {0, 1}) {
                    const Mask last = random_mask(random, size, last_density);
                    const Mask current = random_mask(random, size, density);
                    BlockMask last_here(machine, last);
                    BlockMask current_here(machine, current);
                    const auto g = draw(all_data()[5], random, size + unaligned);
                    const auto e = draw(all_data()[0], random, size);
                    const auto m = draw(all_data()[0], random, last.selected());
                    const auto packed = static_cast<std::size_t>(current.selected());
                    std::vector<float> expected_e = e;
                    std::vector<float> expected_payload(packed);
                    std::vector<float> expected_m(packed);
                    EXPECT_EQ(distributed::host::local_pass(scalars(), 0, size,
                                                            {g.data() + unaligned, expected_e.data(),
                                                             expected_e.data(), last, m.data(), current,
                                                             expected_payload.data()}),
                              size);
                    distributed::host::repack(0, size, last, m.data(), current, expected_m.data());
                    std::vector<float> result = e;
                    std::vector<float> payload(packed, 7.0F);
                    std::vector<float> moment(packed, 7.0F);
                    machine.run<LocalPass>((size + tile - 1) / tile, {scalars(),
                                                                      size,
                                                                      g.data() + unaligned,
                                                                      result.data(),
                                                                      last_here.view(),
                                                                      m.data(),
                                                                      current_here.view(),
                                                                      payload.data(),
                                                                      moment.data(),
                                                                      {}});
                    ASSERT_EQ(bits(result), bits(expected_e)) << size << ' ' << density;
                    ASSERT_EQ(bits(payload), bits(expected_payload));
                    ASSERT_EQ(bits(moment), bits(expected_m));

                    result = e;
                    expected_e = e;
                    distributed::host::extract(0, size, expected_e.data(), current,
                                               expected_payload.data());
                    machine.run<Extract>(
                        (size + tile - 1) / tile,
                        {size, result.data(), current_here.view(), payload.data(), moment.data()});
                    ASSERT_EQ(bits(result), bits(expected_e));
                    ASSERT_EQ(bits(payload), bits(expected_payload));
                    ASSERT_EQ(bits(moment), bits(std::vector<float>(packed, 0.0F)));
                }
}

/// Sections 4.5 to 4.8 by the host's passes.
struct EndOfStep {
    EndOfStep(BiasCorrection correction, const distributed::Scalars& s, double clip_norm,
              const Mask& current, std::vector<float> moment, const std::vector<float>& m,
              std::vector<float> parameters)
        : M(std::move(moment)), w(std::move(parameters)) {
        const auto size = static_cast<Index>(M.size());
        std::vector<float> u(M.size());
        distributed::host::reconstruct(s, 0, size, M.data(), m.data(), u.data());
        if (clip_norm > 0.0) {
            std::vector<double> sums(static_cast<std::size_t>((size + 4095) / 4096));
            distributed::host::square_sums(0, static_cast<Index>(sums.size()), u.data(), size, sums.data());
            double total = 0.0;
            for (const double sum : sums)
                total += sum;
            norm = std::sqrt(total);
            factor = static_cast<float>(std::min(1.0, clip_norm / (norm + 1e-6)));
            distributed::host::clip(s, factor, 0, size, m.data(), u.data(), M.data());
        }
        distributed::host::directions(correction, s, 0, size, M.data(), m.data(), u.data(), u.data());
        finite = std::ranges::all_of(M, [](float value) { return std::isfinite(value); });
        finite =
            distributed::host::update(s, 0, static_cast<Index>(w.size()), w.data(), current, u.data()) &&
            finite;
    }
    std::vector<float> M;
    std::vector<float> w;
    double norm = 0.0;
    float factor = 1.0F;
    bool finite = true;
};

TEST_P(Blocks, EndOfAStep) {
    std::mt19937_64 random(8);
    for (const Index size : sizes)
        for (const double density : densities)
            for (const float decay : {0.9999F, 1.0F})
                for (const double clip_norm : {0.0, 0.5, 1e9})
                    for (const auto correction :
                         {BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum}) {
                        const Mask current = random_mask(random, size, density);
                        BlockMask here(machine, current);
                        distributed::Scalars s = scalars();
                        s.decay = decay;
                        const auto M = draw(all_data()[0], random, current.selected());
                        const auto m = draw(all_data()[0], random, current.selected());
                        auto w = draw(all_data()[0], random, size);
                        if (random() % 4 == 0 && size > 0)
                            w[random() % w.size()] = std::numeric_limits<float>::infinity();
                        const EndOfStep expected(correction, s, clip_norm, current, M, m, w);

                        Results results{};
                        const Index blocks = (current.selected() + 4095) / 4096;
                        std::vector<double> sums(static_cast<std::size_t>(blocks));
                        std::vector<float> moment = M;
                        if (clip_norm > 0.0) {
                            machine.run<SquareSums>(
                                blocks, {s, current.selected(), moment.data(), m.data(), sums.data()});
                            machine.run<Clip>(1, {blocks, sums.data(), clip_norm, &results});
                            ASSERT_EQ(std::bit_cast<std::uint64_t>(results.norm),
                                      std::bit_cast<std::uint64_t>(expected.norm));
                            ASSERT_EQ(results.clip_factor, expected.factor);
                        }
                        machine.run<Update>(
                            (size + tile - 1) / tile,
                            {s,
                             correction == BiasCorrection::momentum ? Direction::momentum : Direction::adam,
                             clip_norm > 0.0, size, w.data(), here.view(), moment.data(), m.data(),
                             &results});
                        ASSERT_EQ(bits(w), bits(expected.w)) << size << ' ' << density << ' ' << decay;
                        ASSERT_EQ(bits(moment), bits(expected.M));
                        ASSERT_EQ(results.not_finite == 0, expected.finite);
                    }
}

/// The specification's tree, word by word: add pairs while there is more than one sum; an odd last
/// one moves up.
double sum_in_levels(std::vector<double> sums) {
    while (sums.size() > 1) {
        std::vector<double> next;
        for (std::size_t i = 0; i < sums.size(); i += 2)
            next.push_back(i + 1 < sums.size() ? sums[i] + sums[i + 1] : sums[i]);
        sums = std::move(next);
    }
    return sums.front();
}

TEST_P(Blocks, TheTreeOfTheNormIsTheSpecificationsWhereverGroupsEnd) {
    std::mt19937_64 random(11);
    for (Index count :
         {Index{2}, Index{3}, Index{5}, Index{7}, Index{9}, Index{31}, TreeSums::group - 1, TreeSums::group,
          TreeSums::group + 1, 3 * TreeSums::group + 5, TreeSums::group * TreeSums::group / 64 + 7}) {
        std::vector<double> sums;
        for (Index i = 0; i < count; ++i)
            sums.push_back(
                std::ldexp(1.0 + static_cast<double>(random() % 1000), static_cast<int>(random() % 60)));
        const double expected = sum_in_levels(sums);
        while (count > 1) {
            const Index groups = (count + TreeSums::group - 1) / TreeSums::group;
            std::vector<double> next(static_cast<std::size_t>(groups));
            machine.run<TreeSums>(groups, {count, sums.data(), next.data()});
            sums.swap(next);
            count = groups;
        }
        ASSERT_EQ(std::bit_cast<std::uint64_t>(sums.front()), std::bit_cast<std::uint64_t>(expected));
    }
}

} // namespace
} // namespace truestep::gpu::scape
