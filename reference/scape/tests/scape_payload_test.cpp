// Section 21: payloads of bf16.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "scape_support.hpp"

namespace scape::reference {
namespace {

problem::HyperParameters in_bf16() {
    problem::HyperParameters settings;
    settings.payload = problem::Payload::bf16;
    return settings;
}

/// By the bits: half of what is cut off, less one unless what stays is odd, carries over or does not.
float by_bits(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16U) & 1U)) & 0xffff'0000U);
}

TEST(Bf16Test, RoundsEveryKindOfFloatAsItsBitsSay) {
    std::mt19937_64 generator(7);
    for (int repeat = 0; repeat < 2'000'000; ++repeat) {
        auto bits = static_cast<std::uint32_t>(generator());
        if (repeat % 4 == 0)
            bits &= 0xffff'8000U; // ties, and numbers of bf16
        if (repeat % 16 == 1)
            bits &= 0x80ff'ffffU; // subnormals, and little more
        const auto value = std::bit_cast<float>(bits);
        if (!std::isfinite(value))
            continue;
        const double rounded = nearest_bf16(static_cast<double>(value));
        const float expected = by_bits(value);
        if (std::isinf(expected))
            ASSERT_EQ(rounded, std::copysign(0x1p128, static_cast<double>(value)));
        else
            ASSERT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(rounded)),
                      std::bit_cast<std::uint32_t>(expected))
                << value;
    }
}

TYPED_TEST(ScapeTest, Section21SendsWhatIsRoundedAndKeepsTheRest) {
    using T = TypeParam;
    bool anything = false;
    for (const auto& [t, before, g, made, after] : this->run(this->make(in_bf16()))) {
        for (std::size_t place = 0; place < made.S.size(); ++place) {
            const Index i = made.S[place];
            T sum = T(0);
            for (int rank = 0; rank < workers; ++rank) {
                const T c = made.c[static_cast<std::size_t>(rank)][i];
                const T p = static_cast<T>(nearest_bf16(static_cast<double>(c)));
                sum = rank == 0 ? p : sum + p;
                ASSERT_TRUE(same_bits(after.e[static_cast<std::size_t>(rank)][i], c - p));
                anything = anything || c != p;
            }
            ASSERT_TRUE(same_bits(made.exchanged[static_cast<Index>(place)], sum / T(workers)));
        }
        for (Index i = 0; i < size; ++i)
            if (std::ranges::find(made.S, i) == made.S.end()) {
                ASSERT_TRUE(same_bits(after.e[0][i], made.c[0][i]));
            }
    }
    EXPECT_TRUE(anything);
}

TYPED_TEST(ScapeTest, Section21AnOverflowRefusesTheStepWithNothingChanged) {
    using T = TypeParam;
    Scape<T> optimizer = this->make(in_bf16());
    const PerRank<T> g(workers, Vector<T>::Zero(size));
    static_cast<void>(optimizer.step(g, learning_rate));
    const Index i = optimizer.state.S->back();
    optimizer.state.e[1][i] = optimizer.state.e[2][i] = T(-0x1.FFp127);
    const ScapeState<T> before = optimizer.state;
    try {
        static_cast<void>(optimizer.step(g, learning_rate));
        FAIL() << "the step was taken";
    } catch (const RefusedStep& refused) {
        EXPECT_EQ(refused.rank, 1);
        EXPECT_EQ(refused.index, i);
        EXPECT_EQ(refused.value, -0x1.FFp127);
        EXPECT_NE(std::string(refused.what()).find("c of rank 1"), std::string::npos);
    }
    EXPECT_TRUE(same_bits(optimizer.state, before));
    optimizer.state.e[2][i] = T(0);
    optimizer.state.e[1][i] = T(std::nextafter(-0x1.FFp127F, 0.0F));
    // What bf16 holds is taken; that fp32 does not hold ghat of so large a mean is another matter.
    try {
        static_cast<void>(optimizer.step(g, learning_rate));
    } catch (const Halted&) {
        EXPECT_TRUE((std::is_same_v<T, float>));
    }
}

} // namespace
} // namespace scape::reference
