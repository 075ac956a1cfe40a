// The scalar of bf16: each operation is the exact one, rounded to the nearest.
#include <truestep/reference/bf16.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "support.hpp"

namespace truestep::reference::scape {
namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();

float number_of(std::uint32_t upper_half) {
    return std::bit_cast<float>(upper_half << 16U);
}

Bf16 bf16(float value) {
    return Bf16(static_cast<double>(value));
}

/// Finds the nearest number by looking at both neighbours in 64 bits, independently of the scalar.
float nearest_by_search(long double exact) {
    if (exact == 0.0L || !std::isfinite(exact))
        return static_cast<float>(exact);
    const long double magnitude = std::abs(exact);
    constexpr std::uint32_t greatest = 0x7f7f;
    std::uint32_t below = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude)) >> 16U;
    below = below > greatest ? greatest : below;
    while (below > 0 && static_cast<long double>(number_of(below)) > magnitude)
        --below;
    const auto down = static_cast<long double>(number_of(below));
    const long double up = below == greatest ? 0x1p128L : static_cast<long double>(number_of(below + 1));
    const long double to_up = up - magnitude;
    const long double to_down = magnitude - down;
    const bool goes_up = to_up < to_down || (to_up == to_down && (below & 1U) != 0);
    const float nearest = number_of(goes_up ? below + 1 : below);
    return exact < 0.0L ? -nearest : nearest;
}

void expect_nearest(Bf16 result, long double exact, float a, float b, const char* operation) {
    const float expected = nearest_by_search(exact);
    const auto actual = static_cast<float>(result);
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(actual) : bits_of(actual) == bits_of(expected))
        << a << " " << operation << " " << b;
}

void expect_operations(float a, float b) {
    const auto x = static_cast<long double>(a);
    const auto y = static_cast<long double>(b);
    expect_nearest(bf16(a) + bf16(b), x + y, a, b, "+");
    expect_nearest(bf16(a) - bf16(b), x - y, a, b, "-");
    expect_nearest(bf16(a) * bf16(b), x * y, a, b, "*");
    expect_nearest(bf16(a) / bf16(b), x / y, a, b, "/");
}

TEST(Bf16, HoldsEachOfItsNumbersAndWhatIsNone) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float number = number_of(bits);
        const auto held = static_cast<float>(bf16(number));
        ASSERT_TRUE(std::isnan(number) ? std::isnan(held) : bits_of(held) == bits_of(number)) << bits;
    }
}

TEST(Bf16, TakesTheNearestNumberAndOfTwoTheEvenOne) {
    EXPECT_EQ(static_cast<float>(Bf16(1.0 + 0x1p-8)), 1.0F);
    EXPECT_EQ(static_cast<float>(Bf16(1.0 + 0x1.8p-7)), 1.0F + 0x1p-6F);
    EXPECT_EQ(static_cast<float>(Bf16(1.0 + 0x1.000002p-8)), 1.0F + 0x1p-7F);
    EXPECT_EQ(static_cast<float>(Bf16(0.9)), 0.8984375F);
    EXPECT_EQ(static_cast<float>(Bf16(0.999)), 1.0F) << "which is what is wrong with 1 - beta2 in bf16";
    EXPECT_EQ(static_cast<float>(Bf16(-0x1p-134)), 0.0F);
    EXPECT_TRUE(std::signbit(static_cast<float>(Bf16(-0x1p-134))));
    EXPECT_EQ(static_cast<float>(Bf16(0x1.8p-134)), 0x1p-133F);
    EXPECT_EQ(static_cast<float>(Bf16(0x1.fefffp127)), 0x1.fep127F);
    EXPECT_EQ(static_cast<float>(Bf16(0x1.ffp127)), infinite);
    EXPECT_EQ(static_cast<float>(Bf16(-1e300)), -infinite);
}

TEST(Bf16, EveryOperationIsTheExactOneRoundedForEveryPairOfExponents) {
    std::mt19937 generator(1);
    const auto with_exponent = [&](std::uint32_t exponent) {
        const auto drawn = static_cast<std::uint32_t>(generator());
        return number_of(((drawn & 0x100U) << 7U) | (exponent << 7U) | (drawn & 0x7fU));
    };
    for (std::uint32_t a = 0; a < 255; ++a)
        for (std::uint32_t b = 0; b < 255; ++b)
            expect_operations(with_exponent(a), with_exponent(b));
}

TEST(Bf16, EveryOperationIsTheExactOneRoundedForAllSignificandsOfNearExponents) {
    for (std::uint32_t a = 0; a < 128; ++a)
        for (std::uint32_t b = 0; b < 128; ++b)
            for (const std::uint32_t exponent : {0U, 1U, 118U, 119U, 120U, 126U, 127U, 128U, 136U, 254U}) {
                const float x = number_of((127U << 7U) | a);
                const float y = number_of((exponent << 7U) | b);
                expect_operations(x, y);
                expect_operations(x, -y);
            }
}

TEST(Bf16, TheRootOfEveryNumberIsTheExactOneRounded) {
    for (std::uint32_t bits = 0; bits <= 0x7f80; ++bits) {
        const float number = number_of(bits);
        expect_nearest(sqrt(bf16(number)), std::sqrt(static_cast<long double>(number)), number, number,
                       "sqrt");
    }
    EXPECT_TRUE(std::isnan(static_cast<float>(sqrt(bf16(-1.0F)))));
    const Vector<Bf16> root = Vector<Bf16>::Constant(9, bf16(2.0F)).sqrt();
    EXPECT_EQ(static_cast<float>(root[8]), 1.4140625F) << "Eigen asks the scalar";
}

TEST(Bf16, ScoresAsFp32Does) {
    for (const float value : {0.0F, -0.0F, 1.0F, -1.5F, 0x1p-133F, 0x1.fep127F})
        EXPECT_EQ(score(bf16(value)), score(value));
}

TEST(Bf16, TheReferenceOverItMakesNumbersOfBf16AndOthersThanInFp32) {
    const problem::Problem problem = small_problem();
    const auto density = problem::DensitySchedule::constant(0.5);
    const Vector<float> parameters = small_parameters<float>();
    const auto rounded = [](const Vector<float>& values) {
        Vector<Bf16> result(values.size());
        for (Index i = 0; i < values.size(); ++i)
            result[i] = bf16(values[i]);
        return result;
    };
    Scape<float> single(problem, density, parameters);
    Scape<Bf16> half(problem, density, rounded(parameters));
    for (Index step = 1; step <= 3; ++step) {
        const PerRank<float> g = random_gradients<float>(3, 40, step);
        PerRank<Bf16> of_half;
        for (const Vector<float>& of_rank : g)
            of_half.push_back(rounded(of_rank));
        static_cast<void>(single.step(g, 0.01));
        static_cast<void>(half.step(of_half, 0.01));
    }
    Index others = 0;
    for (Index i = 0; i < 40; ++i) {
        const auto w = static_cast<float>(half.state.w[i]);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(w) & 0xffffU, 0U);
        EXPECT_LT(std::abs(w - single.state.w[i]), 0.2F) << "another mask at most";
        others += w == single.state.w[i] ? 0 : 1;
    }
    EXPECT_GT(others, 30);
}

} // namespace
} // namespace truestep::reference::scape
