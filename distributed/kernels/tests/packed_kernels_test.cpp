// Passes over packed vectors, dense ones and sums.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes.hpp"

namespace truestep::distributed::host {
namespace {

using problem::BiasCorrection;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

/// Passes over packed vectors may be cut anywhere.
constexpr Index unit = 1000;

TEST_P(KernelTest, Fold) {
    std::mt19937_64 generator(2);
    for (const Index size : sizes)
        for (const int workers : {1, 2, 3, 7}) {
            Scalars s = scalars();
            s.workers = static_cast<float>(workers);
            const Index stride = size + 5;
            const Guarded parts(values(generator, std::max(Index{0}, stride * (workers - 1) + size)));
            std::vector<float> expected;
            for (Index i = 0; i < size; ++i) {
                float sum = parts.data()[i];
                for (int rank = 1; rank < workers; ++rank)
                    sum += parts.data()[rank * stride + i];
                expected.push_back(sum / s.workers);
            }
            for (const Pieces& pieces : splits(size, unit)) {
                Guarded mean(size);
                for (const auto& [begin, end] : pieces)
                    fold(s, workers, begin, end, parts.data(), stride, mean.data());
                ASSERT_EQ(bits(mean), bits(expected));
            }
        }
}

/// Rounds by definition: to the nearer neighbour, in a tie to the even one.
float nearest_bf16(float c) {
    const auto below = std::bit_cast<float>(std::bit_cast<std::uint32_t>(c) & 0xffff'0000U);
    const auto above = std::bit_cast<float>(std::bit_cast<std::uint32_t>(below) + 0x1'0000U);
    const auto to = [c](float neighbour) {
        return std::abs(static_cast<double>(neighbour) - static_cast<double>(c));
    };
    const bool even = (std::bit_cast<std::uint32_t>(below) & 0x1'0000U) == 0;
    return to(below) < to(above) || (to(below) == to(above) && even) ? below : above;
}

TEST_P(KernelTest, ToBf16AndTheFoldOfIt) {
    std::mt19937_64 generator(21);
    for (const Index size : sizes) {
        std::vector<float> c = values(generator, size);
        // Ties to either side, subnormals, zeros of both signs, the greatest that does not
        // overflow.
        const std::vector<std::uint32_t> edges{0x3f80'8000, 0x3f81'8000, 0xbf80'8001, 0x0000'8000,
                                               0x8001'8000, 0x0000'0001, 0x8000'0000, 0x0000'0000,
                                               0x7f7f'7fff, 0x007f'c000};
        for (std::size_t i = 0; i < std::min(edges.size(), c.size()); ++i)
            c[i] = std::bit_cast<float>(edges[i]);
        for (const Pieces& pieces : splits(size, unit)) {
            Guarded rounded(c);
            Guarded lost(size);
            std::vector<std::uint16_t> sent(static_cast<std::size_t>(size));
            for (const auto& [begin, end] : pieces)
                to_bf16(begin, end, rounded.data(), sent.data(), lost.data());
            for (Index i = 0; i < size; ++i) {
                const float from = c[static_cast<std::size_t>(i)];
                const float expected = nearest_bf16(from);
                ASSERT_EQ(bits(rounded.data() + i, 1), bits(&expected, 1)) << from;
                const float rest = from - expected;
                ASSERT_EQ(bits(lost.data() + i, 1), bits(&rest, 1)) << from;
                ASSERT_EQ(sent[static_cast<std::size_t>(i)], std::bit_cast<std::uint32_t>(expected) >> 16U);
            }
        }
        for (const int workers : {1, 2, 3, 7}) {
            Scalars s = scalars();
            s.workers = static_cast<float>(workers);
            const Index stride = size + 3;
            std::vector<std::uint16_t> parts;
            std::vector<float> in_fp32;
            for (const float value : values(generator, stride * workers)) {
                parts.push_back(element::to_bf16(value));
                in_fp32.push_back(element::from_bf16(parts.back()));
            }
            std::vector<float> expected(static_cast<std::size_t>(size));
            fold(s, workers, 0, size, in_fp32.data(), stride, expected.data());
            for (const Pieces& pieces : splits(size, unit)) {
                Guarded mean(size);
                for (const auto& [begin, end] : pieces)
                    fold_bf16(s, workers, begin, end, parts.data(), stride, mean.data());
                ASSERT_EQ(bits(mean), bits(expected));
            }
        }
    }
}

/// Rounds by definition: to the nearest of all finite E5M2 numbers, in a tie to the one whose last
/// bit is 0.
std::uint8_t nearest_e5m2(double scaled) {
    const auto value_of = [](int bits) {
        const int exponent = bits >> 2;
        return exponent == 0 ? std::ldexp(bits & 3, -16) : std::ldexp(4 + (bits & 3), exponent - 17);
    };
    constexpr int greatest = 0x7b;
    const double magnitude = std::min(std::abs(scaled), 0x1p20); // beyond this all are equally far
    int nearest = 0;
    for (int bits = 1; bits <= greatest; ++bits) {
        const double to = std::abs(value_of(bits) - magnitude);
        const double before = std::abs(value_of(nearest) - magnitude);
        if (to < before || (to == before && bits % 2 == 0))
            nearest = bits;
    }
    return static_cast<std::uint8_t>(nearest | (std::signbit(scaled) ? 0x80 : 0));
}

TEST_P(KernelTest, ToE5m2AndTheFoldOfIt) {
    std::mt19937_64 generator(22);
    for (const int exponent : {-126, -100, -20, 0, 1, 14, 15, 16, 60, 127}) {
        const element::E5m2Scale scale = element::e5m2_scale(exponent + 127);
        constexpr Index size = 1000;
        std::vector<float> c;
        for (const float value : values(generator, size)) // all binades that matter, ties among them
            c.push_back(static_cast<float>(std::ldexp(
                generator() % 2 == 0 ? static_cast<double>(value)
                                     : static_cast<double>(generator() % 64) * (value < 0.0F ? -1.0 : 1.0),
                exponent - static_cast<int>(generator() % 40))));
        for (float& value : c)
            value = std::isfinite(value) ? value : std::copysign(1.0F, value);
        c[0] = 0.0F;
        c[1] = -0.0F;
        c[2] = 0x1p-149F;
        c[3] = std::numeric_limits<float>::max();
        std::vector<float> rounded = c;
        std::vector<float> lost(c.size());
        std::vector<std::uint8_t> sent(c.size());
        to_e5m2(scale, 0, size, rounded.data(), sent.data(), lost.data());
        std::uint32_t greatest = 0;
        for (std::size_t i = 0; i < c.size(); ++i) {
            const double scaled = std::ldexp(static_cast<double>(c[i]), 15 - exponent);
            ASSERT_EQ(sent[i], nearest_e5m2(scaled)) << c[i] << " at " << exponent;
            const int magnitude = sent[i] & 0x7f;
            const double value = magnitude < 4 ? std::ldexp(magnitude, -16)
                                               : std::ldexp(4 + magnitude % 4, magnitude / 4 - 17);
            const auto back = static_cast<float>(
                std::copysign(std::ldexp(value, exponent - 15), static_cast<double>(c[i])));
            ASSERT_EQ(bits(&rounded[i], 1), bits(&back, 1)) << c[i];
            const float rest = c[i] - back;
            ASSERT_EQ(bits(&lost[i], 1), bits(&rest, 1));
            greatest = std::max(greatest, element::score(c[i]));
        }
        EXPECT_EQ(greatest_score_of(0, size, c.data()), greatest);
        for (const int workers : {1, 2, 3, 7}) {
            Scalars s = scalars();
            s.workers = static_cast<float>(workers);
            const Index each = size / workers;
            std::vector<float> expected(static_cast<std::size_t>(each));
            fold(s, workers, 0, each, rounded.data(), each, expected.data());
            for (const Pieces& pieces : splits(each, unit)) {
                Guarded mean(each);
                for (const auto& [begin, end] : pieces)
                    fold_e5m2(s, scale, workers, begin, end, sent.data(), each, mean.data());
                ASSERT_EQ(bits(mean), bits(expected));
            }
        }
    }
    // Infinities must stay, or they would pass unnoticed.
    const element::E5m2Scale scale = element::e5m2_scale(127);
    std::vector<float> infinite{INFINITY, -INFINITY};
    std::vector<float> lost(2);
    std::vector<std::uint8_t> sent(2);
    to_e5m2(scale, 0, 2, infinite.data(), sent.data(), lost.data());
    EXPECT_THAT(sent, ElementsAre(0x7c, 0xfc));
    EXPECT_THAT(infinite, ElementsAre(INFINITY, -INFINITY));
}

TEST_P(KernelTest, ReconstructAndClip) {
    std::mt19937_64 generator(3);
    for (const Index size : sizes)
        for (const float clipping : {1.0F, 0.3F}) {
            const Scalars s = scalars();
            const Guarded m(values(generator, size));
            const std::vector<float> M = values(generator, size);
            std::vector<float> ghat;
            std::vector<float> clipped;
            std::vector<float> moments;
            for (std::size_t i = 0; i < M.size(); ++i) {
                ghat.push_back(element::reconstruct(s, M[i], m.data()[i]));
                clipped.push_back(ghat.back() * clipping);
                moments.push_back(element::moment(s, m.data()[i], clipped.back()));
            }
            for (const Pieces& pieces : splits(size, unit)) {
                Guarded moment(M);
                Guarded result(size);
                for (const auto& [begin, end] : pieces)
                    reconstruct(s, begin, end, moment.data(), m.data(), result.data());
                ASSERT_EQ(bits(result), bits(ghat));
                for (const auto& [begin, end] : pieces)
                    clip(s, clipping, begin, end, m.data(), result.data(), moment.data());
                ASSERT_EQ(bits(result), bits(clipped));
                ASSERT_EQ(bits(moment), bits(moments));
            }
        }
}

TEST_P(KernelTest, Directions) {
    std::mt19937_64 generator(4);
    for (const Index size : sizes)
        for (const BiasCorrection correction :
             {BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum}) {
            Scalars s = scalars();
            if (correction == BiasCorrection::none)
                s.inv1 = s.invs2 = 1.0F;
            const Guarded M(values(generator, size));
            const Guarded m(values(generator, size));
            const std::vector<float> ghat = values(generator, size);
            std::vector<float> expected;
            for (std::size_t i = 0; i < ghat.size(); ++i)
                expected.push_back(correction == BiasCorrection::momentum
                                       ? element::direction_momentum(s, M.data()[i], m.data()[i], ghat[i])
                                       : element::direction_adam(s, M.data()[i], m.data()[i], ghat[i]));
            for (const Pieces& pieces : splits(size, unit)) {
                const Guarded from(ghat);
                Guarded u(size);
                Guarded in_place(ghat);
                Guarded over_m(std::vector<float>(m.data(), m.data() + size));
                for (const auto& [begin, end] : pieces) {
                    directions(correction, s, begin, end, M.data(), m.data(), from.data(), u.data());
                    directions(correction, s, begin, end, M.data(), m.data(), in_place.data(),
                               in_place.data());
                    directions(correction, s, begin, end, M.data(), over_m.data(), from.data(),
                               over_m.data());
                }
                ASSERT_EQ(bits(u), bits(expected));
                ASSERT_EQ(bits(over_m), bits(expected));
                ASSERT_EQ(bits(in_place), bits(expected));
            }
        }
}

TEST_P(KernelTest, Dense) {
    std::mt19937_64 generator(8);
    for (const Index size : sizes)
        for (const BiasCorrection correction :
             {BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum}) {
            Scalars s = scalars();
            if (correction == BiasCorrection::none)
                s.inv1 = s.invs2 = 1.0F;
            const Guarded g(values(generator, size));
            const std::vector<float> m = values(generator, size);
            const std::vector<float> w = values(generator, size);
            std::vector<float> moments;
            std::vector<float> parameters;
            for (std::size_t i = 0; i < m.size(); ++i) {
                const float M = element::moment(s, m[i], g.data()[i]);
                const float u = correction == BiasCorrection::momentum
                                    ? element::direction_momentum(s, M, m[i], g.data()[i])
                                    : element::direction_adam(s, M, m[i], g.data()[i]);
                moments.push_back(M);
                parameters.push_back(element::update(s, w[i] * s.decay, u));
            }
            for (const Pieces& pieces : splits(size, unit)) {
                Guarded moment(m);
                Guarded parameter(w);
                for (const auto& [begin, end] : pieces)
                    EXPECT_TRUE(dense(correction, s, end - begin, g.data() + begin, moment.data() + begin,
                                      parameter.data() + begin));
                ASSERT_EQ(bits(moment), bits(moments));
                ASSERT_EQ(bits(parameter), bits(parameters));
            }
        }
}

TEST_P(KernelTest, DenseAndFiniteNoticeWhatIsNot) {
    for (const Index size : {1, 63, 64, 100, 257, 5000})
        for (const Index at : {Index{0}, size / 2, size - 1})
            for (const float bad : {not_a_number, -not_a_number, infinity, -infinity}) {
                const std::vector<float> ones(static_cast<std::size_t>(size), 1.0F);
                Guarded w(std::vector<float>(ones.size(), -0x1.fffffep127F));
                EXPECT_TRUE(finite(w.data(), size));
                w.data()[at] = bad;
                EXPECT_FALSE(finite(w.data(), size));
                EXPECT_TRUE(finite(w.data(), at));
                Guarded m(ones);
                EXPECT_FALSE(
                    dense(BiasCorrection::adam, scalars(), size, Guarded(ones).data(), m.data(), w.data()));
            }
}

TEST_P(KernelTest, SquareSumsFollowTheOrderOfSection5) {
    std::mt19937_64 generator(6);
    for (const Index size : {0, 1, 255, 256, 257, 511, 4095, 4096, 4097, 4352, 10000}) {
        const Guarded ghat(values(generator, size));
        const Index blocks = (size + norm_block - 1) / norm_block;
        std::vector<double> expected;
        for (Index block = 0; block < blocks; ++block) {
            std::array<double, 256> lanes{};
            for (std::size_t j = 0; j < 256; ++j)
                for (Index i = static_cast<Index>(j); i < norm_block; i += 256)
                    if (const Index at = block * norm_block + i; at < size)
                        lanes[j] +=
                            static_cast<double>(ghat.data()[at]) * static_cast<double>(ghat.data()[at]);
            for (std::size_t width = 128; width > 0; width /= 2)
                for (std::size_t j = 0; j < width; ++j)
                    lanes[j] += lanes[j + width];
            expected.push_back(lanes[0]);
        }
        std::vector<double> sums(static_cast<std::size_t>(blocks), -1.0);
        square_sums(0, blocks, ghat.data(), size, sums.data());
        EXPECT_THAT(sums, ElementsAreArray(expected));
        std::vector<double> apart(static_cast<std::size_t>(blocks), -1.0);
        for (Index block = blocks; block-- > 0;)
            square_sums(block, block + 1, ghat.data(), size, apart.data());
        EXPECT_THAT(apart, ElementsAreArray(expected));
    }
}

} // namespace
} // namespace truestep::distributed::host
