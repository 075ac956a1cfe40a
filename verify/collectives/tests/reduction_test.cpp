// What explains a result, and the error that any order of addition may make: with a known bug of each kind.
#include <truestep/verify/collectives/reduction.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace truestep::verify::collectives {
namespace {

template <class Value>
std::vector<std::byte> bytes_of(const std::vector<Value>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(Value));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

std::uint16_t to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

float from_bf16(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

template <class Value>
Explanation explained(const char* type, const std::vector<std::vector<Value>>& inputs,
                      const std::vector<Value>& output) {
    std::vector<std::vector<std::byte>> bytes;
    for (const auto& input : inputs)
        bytes.push_back(bytes_of(input));
    std::vector<std::span<const std::byte>> views(bytes.begin(), bytes.end());
    const std::vector<std::byte> result = bytes_of(output);
    return explain(*find_type(type), views, result);
}

/// Values of many magnitudes and both signs, so that sums cancel.
std::vector<std::vector<float>> random_inputs(std::size_t ranks, std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<std::vector<float>> inputs(ranks, std::vector<float>(count));
    for (auto& input : inputs)
        for (float& value : input)
            value = std::ldexp(normal(random), static_cast<int>(random() % 40U) - 20);
    return inputs;
}

template <class Value>
std::vector<Value> folded(const std::vector<std::vector<Value>>& inputs, std::size_t first,
                          const std::function<Value(Value, Value)>& combine) {
    std::vector<Value> result = inputs[first];
    for (std::size_t next = 1; next < inputs.size(); ++next)
        for (std::size_t i = 0; i < result.size(); ++i)
            result[i] = combine(result[i], inputs[(first + next) % inputs.size()][i]);
    return result;
}

const std::function<float(float, float)> plus = [](float a, float b) { return a + b; };

TEST(Reduction, AnyOrderOfFp32SumsHolds) {
    for (const std::size_t ranks : {1U, 2U, 3U, 5U, 16U})
        for (unsigned seed = 0; seed < 20; ++seed) {
            const auto inputs = random_inputs(ranks, 200, seed);
            for (std::size_t first = 0; first < ranks; ++first) {
                std::vector<float> sums = folded(inputs, first, plus);
                EXPECT_TRUE(explained("float32", inputs, sums).holds(Op::sum));
                for (float& value : sums)
                    value /= static_cast<float>(ranks);
                EXPECT_TRUE(explained("float32", inputs, sums).holds(Op::mean));
            }
            // Divided first, as DistributedDataParallel does.
            auto divided = inputs;
            for (auto& input : divided)
                for (float& value : input)
                    value *= 1.0F / static_cast<float>(ranks);
            EXPECT_TRUE(explained("float32", inputs, folded(divided, 0, plus)).holds(Op::mean));
        }
}

TEST(Reduction, OneWrongBitBeyondTheBoundIsSeen) {
    const auto inputs = random_inputs(3, 50, 7);
    std::vector<float> sums = folded(inputs, 0, plus);
    double absolute = 0.0;
    for (const auto& input : inputs)
        absolute += std::abs(static_cast<double>(input[31]));
    sums[31] += static_cast<float>(absolute * 0x1p-21);
    const Explanation wrong = explained("float32", inputs, sums);
    EXPECT_FALSE(wrong.any());
    EXPECT_EQ(wrong.closest(), Op::sum);
    const Outcome& outcome = wrong.of[static_cast<std::size_t>(Op::sum)];
    EXPECT_EQ(outcome.wrong, 1);
    EXPECT_EQ(outcome.first, 31);
    EXPECT_EQ(outcome.found, static_cast<double>(sums[31]));
    EXPECT_LT(outcome.bound, std::abs(outcome.found - outcome.expected));
    EXPECT_GT(outcome.bound, absolute * 0x1p-24);
}

TEST(Reduction, Bf16SumsInBf16AndInFp32Hold) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::vector<std::vector<std::uint16_t>> inputs;
        for (const auto& input : random_inputs(4, 100, seed)) {
            inputs.emplace_back();
            for (const float value : input)
                inputs.back().push_back(to_bf16(value));
        }
        const auto rounding = folded<std::uint16_t>(inputs, 1, [](std::uint16_t a, std::uint16_t b) {
            return to_bf16(from_bf16(a) + from_bf16(b));
        });
        EXPECT_TRUE(explained("bfloat16", inputs, rounding).holds(Op::sum));
        std::vector<std::uint16_t> wider(100);
        for (std::size_t i = 0; i < wider.size(); ++i) {
            float sum = 0.0F;
            for (const auto& input : inputs)
                sum += from_bf16(input[i]);
            wider[i] = to_bf16(sum / 4.0F);
        }
        EXPECT_TRUE(explained("bfloat16", inputs, wider).holds(Op::mean));
        // Summed in fp32, but cut off and one digit up: of the values some are beyond any order.
        for (auto& value : wider)
            value = static_cast<std::uint16_t>(value + 8U);
        EXPECT_FALSE(explained("bfloat16", inputs, wider).holds(Op::mean));
    }
}

TEST(Reduction, HalfPrecisionIsRead) {
    const std::vector<std::vector<std::uint16_t>> inputs{{0x3c00, 0x0001, 0x7bff, 0xc000},
                                                         {0x4000, 0x0001, 0x7bff, 0x4000}};
    const std::vector<std::uint16_t> sums{0x4200, 0x0002, 0x7c00,
                                          0x0000}; // 1 + 2, two subnormals, an overflow, -2 + 2
    EXPECT_TRUE(explained("float16", inputs, sums).holds(Op::sum));
    EXPECT_FALSE(explained("float16", inputs, {0x4200, 0x0002, 0x7bff, 0x0000}).holds(Op::sum));
    EXPECT_EQ(value_at(*find_type("float16"), bytes_of(sums), 1), 0x1p-23);
}

TEST(Reduction, DoublesAreHeldToDoubles) {
    const std::vector<std::vector<double>> inputs{{0.1, 1e300}, {0.2, -1e300}, {0.3, 1.0}};
    EXPECT_TRUE(explained("float64", inputs, {0.1 + 0.2 + 0.3, 0.0})
                    .holds(Op::sum)); // 1 is below what 1e300 rounds
    EXPECT_FALSE(explained("float64", inputs, {static_cast<double>(0.1F) + 0.2 + 0.3, 0.0}).holds(Op::sum));
}

TEST(Reduction, MinMaxAndProductAreExact) {
    const std::vector<std::vector<float>> inputs{{1, -2, 3}, {4, -5, 0.5}, {2, 2, 2}};
    EXPECT_TRUE(explained("float32", inputs, {4, 2, 3}).holds(Op::max));
    EXPECT_TRUE(explained("float32", inputs, {1, -5, 0.5}).holds(Op::min));
    EXPECT_TRUE(explained("float32", inputs, {8, 20, 3}).holds(Op::product));
    EXPECT_FALSE(explained("float32", inputs, {8, 20, 3.0001F}).any());
}

TEST(Reduction, IntegersWrapAndAreExact) {
    const std::vector<std::vector<std::int32_t>> inputs{{2147483647, -7, 12}, {1, 4, 10}};
    EXPECT_TRUE(explained<std::int32_t>("int32", inputs, {-2147483647 - 1, -3, 22}).holds(Op::sum));
    EXPECT_FALSE(explained<std::int32_t>("int32", inputs, {-2147483647 - 1, -3, 23}).any());
    EXPECT_TRUE(explained<std::int32_t>("int32", inputs, {2147483647, 4, 12}).holds(Op::max));
    EXPECT_TRUE(explained<std::int32_t>("int32", inputs, {1, 0, 8}).holds(Op::band));
    EXPECT_TRUE(explained<std::uint8_t>("bool", {{1, 0, 1}, {1, 0, 0}}, {1, 0, 1}).holds(Op::sum));
    EXPECT_FALSE(explained<std::uint8_t>("bool", {{1, 0, 1}, {1, 0, 0}}, {1, 1, 1}).any());
}

TEST(Reduction, AnAverageDividedBySomethingElseIsNamed) {
    const auto inputs = random_inputs(2, 4096, 3);
    std::vector<float> sums = folded(inputs, 0, plus);
    for (float& value : sums)
        value /= 4096.0F;
    const Explanation by_count = explained("float32", inputs, sums);
    EXPECT_FALSE(by_count.any());
    ASSERT_TRUE(by_count.factor);
    EXPECT_NEAR(*by_count.factor * 4096.0, 1.0, 1e-5);
    sums[17] *= 1.01F; // no factor gives them all
    EXPECT_FALSE(explained("float32", inputs, sums).factor);
}

TEST(Reduction, WhatIsNotFiniteStaysSo) {
    const float infinite = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<std::vector<float>> inputs{{infinite, nan, 1.0F, 3e38F},
                                                 {-infinite, 1.0F, 1.0F, 3e38F}};
    EXPECT_TRUE(explained<float>("float32", inputs, {nan, nan, 2.0F, infinite}).holds(Op::sum));
    EXPECT_FALSE(explained<float>("float32", inputs, {0.0F, nan, 2.0F, infinite})
                     .holds(Op::sum)); // a NaN that was lost
    EXPECT_FALSE(explained<float>("float32", inputs, {nan, nan, infinite, infinite}).holds(Op::sum));
}

TEST(Reduction, ZerosAreEverything) {
    const std::vector<std::vector<float>> inputs{{0, 0}, {0, 0}};
    const Explanation zeros = explained<float>("float32", inputs, {0, 0});
    for (const Op op : {Op::sum, Op::mean, Op::product, Op::min, Op::max})
        EXPECT_TRUE(zeros.holds(op));
    EXPECT_EQ(find_type("float8_e4m3fn"), nullptr);
    EXPECT_EQ(find_op("AVG"), Op::mean);
    EXPECT_FALSE(find_op("PREMUL_SUM"));
}

} // namespace
} // namespace truestep::verify::collectives
