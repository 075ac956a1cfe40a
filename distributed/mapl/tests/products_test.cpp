// Tests the interface to the library of products, whichever it is.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/distributed/mapl/products.hpp>

namespace truestep::distributed::mapl {
namespace {

/// Numbers of few bits: every sum of them is exact in any order.
Floats few_bits(std::size_t count, unsigned seed) {
    Floats values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(static_cast<int>((i * 7 + seed * 13 + i / 5) % 17) - 8) * 0.25F;
    return values;
}

Floats plain(const Product& shape, const Floats& first, const Floats& second, Floats to) {
    for (std::size_t i = 0; i < shape.rows; ++i)
        for (std::size_t j = 0; j < shape.columns; ++j) {
            float sum = 0.0F;
            for (std::size_t k = 0; k < shape.inner; ++k)
                sum +=
                    (shape.first_transposed ? first[k * shape.rows + i] : first[i * shape.inner + k]) *
                    (shape.second_transposed ? second[j * shape.inner + k] : second[k * shape.columns + j]);
            float& into = to[i * shape.columns + j];
            into = (shape.keep ? into : 0.0F) + shape.factor * sum;
        }
    return to;
}

TEST(MaplProducts, AreExactInEveryShapeAndReadNothingThatIsNotKept) {
    constexpr std::size_t sizes[]{0, 1, 2, 5, 16, 33, 70};
    for (const std::size_t rows : sizes)
        for (const std::size_t columns : sizes)
            for (const std::size_t inner : sizes)
                for (unsigned which = 0; which < 16; ++which) {
                    const Product shape{.rows = rows,
                                        .columns = columns,
                                        .inner = inner,
                                        .first_transposed = (which & 1U) != 0,
                                        .second_transposed = (which & 2U) != 0,
                                        .factor = (which & 4U) != 0 ? -1.0F : 1.0F,
                                        .keep = (which & 8U) != 0};
                    const Floats first = few_bits(rows * inner, 1);
                    const Floats second = few_bits(inner * columns, 2);
                    Floats to = shape.keep
                                    ? few_bits(rows * columns, 3)
                                    : Floats(rows * columns, std::numeric_limits<float>::quiet_NaN());
                    const Floats wanted = plain(shape, first, second, to);
                    multiply(shape, first.data(), second.data(), to.data());
                    ASSERT_EQ(to, wanted) << rows << " x " << inner << " x " << columns << ", " << which;
                }
}

/// Values behind whole cache lines and `offset` floats.
class Placed {
  public:
    Placed(const Floats& values, std::size_t offset) : room_(values.size() + 64) {
        const auto begin = std::bit_cast<std::uintptr_t>(room_.data());
        place_ = (64 - begin % 64) % 64 / sizeof(float) + offset;
        std::copy(values.begin(), values.end(), room_.begin() + static_cast<std::ptrdiff_t>(place_));
    }
    [[nodiscard]] float* data() { return room_.data() + place_; }

  private:
    Floats room_;
    std::size_t place_;
};

// A replay needs this: the result depends only on the shape and the values.
TEST(MaplProducts, HaveTheSameBitsWhereverTheValuesStand) {
    const auto rounded = [](std::size_t count) {
        Floats values(count);
        for (std::size_t i = 0; i < count; ++i)
            values[i] = static_cast<float>(std::sin(static_cast<double>(i * i + 1)));
        return values;
    };
    for (const Product& shape :
         {Product{.rows = 5, .columns = 3, .inner = 9}, Product{.rows = 37, .columns = 13, .inner = 70},
          Product{.rows = 300, .columns = 40, .inner = 333, .keep = true},
          Product{.rows = 256, .columns = 257, .inner = 64, .second_transposed = true},
          Product{.rows = 333, .columns = 40, .inner = 300, .first_transposed = true, .keep = true}}) {
        const Floats first = rounded(shape.rows * shape.inner);
        const Floats second = rounded(shape.columns * shape.inner);
        Floats wanted = rounded(shape.rows * shape.columns);
        const Floats before = wanted;
        multiply(shape, first.data(), second.data(), wanted.data());
        for (const std::size_t offset : {0U, 1U, 3U, 8U, 13U}) {
            Placed a(first, offset);
            Placed b(second, (offset * 5) % 16);
            Placed to(before, (offset * 3) % 16);
            multiply(shape, a.data(), b.data(), to.data());
            EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), to.data()))
                << shape.rows << ", offset " << offset;
        }
    }
}

// The ends check only the compressed values. A has zeros wherever possible.
TEST(MaplPasses, WhatIsNotFiniteLeavesNothingOfItsRowFinite) {
    for (const std::size_t rank : {1U, 3U, 40U}) {
        constexpr std::size_t width = 67;
        Floats a(width * rank, 0.0F);
        for (std::size_t j = 0; j < rank; ++j)
            a[j * rank + j] = 1.0F;
        const SideMatrices side{.width = width, .rank = rank, .vocabulary = 1, .a = a.data()};
        constexpr float infinity = std::numeric_limits<float>::infinity();
        for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
            for (const std::size_t tokens : {1U, 7U, 300U})
                for (std::size_t place = 0; place < width; ++place) {
                    const std::size_t token = (place * 5 + 2) % tokens;
                    Floats x(tokens * width, 1.0F);
                    x[token * width + place] = bad;
                    const std::vector<Id> ids(tokens, 0);
                    Floats z(tokens * rank);
                    compress(side, ids, x.data(), nullptr, z.data());
                    for (std::size_t i = 0; i < z.size(); ++i)
                        ASSERT_EQ(std::isfinite(z[i]), i / rank != token) << place << " " << rank;
                }
    }
}

TEST(MaplPasses, SeeEveryValueThatIsNotFinite) {
    Floats values(37, std::numeric_limits<float>::max());
    values[5] = -std::numeric_limits<float>::denorm_min();
    EXPECT_TRUE(all_finite(values));
    EXPECT_TRUE(all_finite({}));
    for (std::size_t i = 0; i < values.size(); ++i)
        for (const float bad :
             {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
              std::numeric_limits<float>::quiet_NaN()}) {
            Floats with = values;
            with[i] = bad;
            EXPECT_FALSE(all_finite(with)) << i;
        }
}

// In blocks of rows, in place or not: Q and Z of the plain formula.
TEST(MaplPasses, CompressInOnePassWhatThePlainFormulaCompresses) {
    constexpr std::size_t width = 12;
    constexpr std::size_t rank = 3;
    constexpr std::size_t vocabulary = 5;
    constexpr std::size_t tokens = 700;
    const Floats a = few_bits(width * rank, 4);
    const Floats anchor = few_bits(vocabulary * rank, 5);
    const Floats rows = few_bits(rank * width, 6);
    const Floats x = few_bits(tokens * width, 7);
    std::vector<Id> ids(tokens);
    Floats gathered;
    for (std::size_t token = 0; token < tokens; ++token) {
        ids[token] = static_cast<Id>(token * token % vocabulary);
        for (std::size_t j = 0; j < rank; ++j)
            gathered.push_back(anchor[ids[token] * rank + j]);
    }
    const Floats wanted_q =
        plain({.rows = tokens, .columns = width, .inner = rank, .factor = -1.0F, .keep = true}, gathered,
              rows, x);
    const Floats wanted_z =
        plain({.rows = tokens, .columns = rank, .inner = width}, wanted_q, a, Floats(tokens * rank));
    const SideMatrices side{width, rank, vocabulary, a.data(), anchor.data(), rows.data()};
    Floats q(x.size());
    Floats z(wanted_z.size());
    compress(side, ids, x.data(), q.data(), z.data());
    EXPECT_EQ(q, wanted_q);
    EXPECT_EQ(z, wanted_z);
    Floats in_place = x;
    Floats again(wanted_z.size());
    compress(side, ids, in_place.data(), in_place.data(), again.data());
    EXPECT_EQ(in_place, wanted_q);
    EXPECT_EQ(again, wanted_z);
}

// All 2^16 numbers of bf16 stay; between two neighbours the nearest, in the middle the even one.
TEST(MaplPayload, RoundsToTheNearestOfTwoTheEvenOne) {
    const auto sent = [](std::uint32_t bits) {
        Floats value{std::bit_cast<float>(bits)};
        EXPECT_TRUE(round_to_payload(Payload::bf16, value));
        return std::bit_cast<std::uint32_t>(value.front());
    };
    for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
        const std::uint32_t bits = upper << 16U;
        if ((upper & 0x7f80U) == 0x7f80U) { // not a number
            Floats value{std::bit_cast<float>(bits)};
            EXPECT_FALSE(round_to_payload(Payload::bf16, value));
            continue;
        }
        ASSERT_EQ(sent(bits), bits);
        ASSERT_EQ(sent(bits + 0x7fffU), bits);
        if ((upper & 0x7fffU) == 0x7f7fU) // the greatest: beyond the middle nothing travels
            continue;
        ASSERT_EQ(sent(bits + 0x8000U), upper % 2 == 0 ? bits : bits + 0x10000U);
        ASSERT_EQ(sent(bits + 0x8001U), bits + 0x10000U);
    }
    for (const std::uint32_t beyond : {0x7f7f8000U, 0xff7f8000U, 0x7f7fffffU, 0x7fffffffU, 0xffffffffU}) {
        Floats value{1.0F, std::bit_cast<float>(beyond)};
        EXPECT_FALSE(round_to_payload(Payload::bf16, value)) << beyond;
    }
    Floats exact{1.00001F};
    EXPECT_TRUE(round_to_payload(Payload::fp32, exact));
    EXPECT_EQ(exact.front(), 1.00001F);
}

} // namespace
} // namespace truestep::distributed::mapl
