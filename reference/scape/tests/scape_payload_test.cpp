// Section 21: payloads of bf16 and e5m2.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "scape_support.hpp"

namespace truestep::reference::scape {
namespace {

problem::HyperParameters in_bf16() {
    problem::HyperParameters settings;
    settings.payload = problem::Payload::bf16;
    return settings;
}

/// Rounds by the bits: adds half of the part that is cut off, less one if the rest is even, so that
/// it carries or not.
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

/// All magnitudes of E5M2.
std::vector<double> magnitudes_of_e5m2() {
    std::vector<double> all;
    for (int bits = 0; bits < 0x7c; ++bits)
        all.push_back(bits < 4 ? std::ldexp(bits, -16) : std::ldexp(4 + bits % 4, bits / 4 - 17));
    return all;
}

TEST(E5m2Test, RoundsToTheNearestOfAllItsNumbersAndTiesToEven) {
    const std::vector<double> all = magnitudes_of_e5m2();
    for (const int E : {-126, -60, 0, 15, 16, 127})
        for (std::size_t i = 0; i + 1 < all.size(); ++i) {
            const double middle = (all[i] + all[i + 1]) / 2;
            const auto rounded = [E](double scaled) {
                return std::ldexp(nearest_e5m2(std::ldexp(scaled, E - 15), E), 15 - E);
            };
            ASSERT_EQ(rounded(all[i]), all[i]);
            ASSERT_EQ(rounded(middle), all[i + i % 2]) << i;
            ASSERT_EQ(rounded(std::nextafter(middle, 0.0)), all[i]);
            ASSERT_EQ(rounded(-std::nextafter(middle, 1e9)), -all[i + 1]);
        }
    EXPECT_EQ(nearest_e5m2(0x1p100, 0), 1.75) << "saturates";
    EXPECT_EQ(nearest_e5m2(-0x1.ep0, 0), -1.75) << "at its own exponent, too";
    EXPECT_TRUE(std::isinf(nearest_e5m2(INFINITY, 0))) << "what is infinite is told";
    EXPECT_TRUE(std::signbit(nearest_e5m2(-0x1p-50, 0)));
}

TEST(E5m2Test, ExponentsAreOfTheBinadeAndEndWhereFp32Does) {
    for (const int E : {-126, -1, 0, 56, 127}) {
        EXPECT_EQ(exponent_of(std::ldexp(1.0, E)), E);
        EXPECT_EQ(exponent_of(-std::ldexp(1.999, E)), E);
    }
    EXPECT_EQ(exponent_of(std::nextafter(0x1p-126, 0.0)), no_exponent);
    EXPECT_EQ(exponent_of(0x1p-149), no_exponent);
    EXPECT_EQ(exponent_of(-0.0), no_exponent);
    EXPECT_EQ(exponent_of(INFINITY), 127);
}

TYPED_TEST(ScapeTest, Section21ScalesE5m2ByTheStepBefore) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.payload = problem::Payload::e5m2;
    int E = 0;
    bool otherwise = false;
    for (const auto& [t, before, g, made, after] : this->run(this->make(settings))) {
        int own = -126;
        for (const auto& c : made.c)
            for (const Index i : made.S)
                own = std::max(own, exponent_of(static_cast<double>(c[i])));
        E = t == 1 ? own : E;
        otherwise = otherwise || own != E;
        EXPECT_EQ(before.exponent.has_value(), t > 1);
        for (std::size_t place = 0; place < made.S.size(); ++place) {
            T sum = T(0);
            for (int rank = 0; rank < workers; ++rank) {
                const T c = made.c[static_cast<std::size_t>(rank)][made.S[place]];
                const T p = static_cast<T>(nearest_e5m2(static_cast<double>(c), E));
                sum = rank == 0 ? p : sum + p;
                ASSERT_TRUE(same_bits(after.e[static_cast<std::size_t>(rank)][made.S[place]], c - p));
            }
            ASSERT_TRUE(same_bits(made.exchanged[static_cast<Index>(place)], sum / T(workers)));
        }
        E = own;
        EXPECT_EQ(after.exponent, E);
    }
    EXPECT_TRUE(otherwise) << "whose step the scale is of was never seen";
}

/// Density 1 and b1 = 0, so that c is the gradient as long as nothing is lost.
TYPED_TEST(ScapeTest, Section21AStepOfNothingLeavesTheScaleAsItWas) {
    using T = TypeParam;
    problem::HyperParameters settings;
    settings.payload = problem::Payload::e5m2;
    settings.beta1 = 0.0;
    const auto all = [](double value) { return PerRank<T>(workers, Vector<T>::Constant(size, T(value))); };
    PerRank<T> one_has_some = all(0x1p-127);
    one_has_some[1][2] = T(0x1p-126);
    const std::vector<std::tuple<PerRank<T>, int>> steps{
        {all(0.0), -126}, // the first step's own, whatever it is
        {all(-0.0), -126},  {all(0x1.cp5), 5},    {all(0.0), 5},
        {all(0x1p-127), 5}, {one_has_some, -126}, {all(0x1p-140), -126}};
    Scape<T> optimizer = this->make(settings, problem::DensitySchedule::constant(1.0));
    for (const auto& [g, E] : steps) {
        for (auto& e : optimizer.state.e)
            e.setZero();
        static_cast<void>(optimizer.step(g, learning_rate));
        EXPECT_EQ(optimizer.state.exponent, E);
    }
    // A step after an empty one sends as if the empty one had not happened.
    optimizer.state.exponent = 5;
    for (auto& e : optimizer.state.e)
        e.setZero();
    static_cast<void>(optimizer.step(all(0.0), learning_rate));
    EXPECT_EQ(optimizer.step(all(0x1.8p5), learning_rate).exchanged[0], T(0x1.8p5));
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

TYPED_TEST(ScapeTest, Section21TheOwnerKeepsWhatRoundingTheMeanTakesTimesTheRanks) {
    using T = TypeParam;
    bool anything = false;
    problem::HyperParameters settings;
    settings.payload = problem::Payload::bf16_both;
    const auto segments = small_problem(settings).segments;
    for (const auto& [t, before, g, made, after] : this->run(this->make(settings)))
        for (std::size_t place = 0; place < made.S.size(); ++place) {
            const Index i = made.S[place];
            const auto rounded = [](T value) {
                return static_cast<T>(nearest_bf16(static_cast<double>(value)));
            };
            T mean = rounded(made.c[0][i]);
            for (std::size_t rank = 1; rank < made.c.size(); ++rank)
                mean = mean + rounded(made.c[rank][i]);
            mean = mean / T(workers);
            const T M = rounded(mean);
            anything = anything || M != mean;
            ASSERT_TRUE(same_bits(made.exchanged[static_cast<Index>(place)], M));
            const int owner =
                std::ranges::find_if(segments, [i](const auto& s) { return i < s.end; })->owner;
            for (int rank = 0; rank < workers; ++rank) {
                const T c = made.c[static_cast<std::size_t>(rank)][i];
                const T lost = (mean - M) * T(workers);
                const T kept = rank == owner ? (c - rounded(c)) + lost : c - rounded(c);
                ASSERT_TRUE(same_bits(after.e[static_cast<std::size_t>(rank)][i], kept));
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
    // The step accepts what bf16 holds. That fp32 cannot hold ghat of such a mean is another
    // matter.
    try {
        static_cast<void>(optimizer.step(g, learning_rate));
    } catch (const Halted&) {
        EXPECT_TRUE((std::is_same_v<T, float>));
    }
}

} // namespace
} // namespace truestep::reference::scape
