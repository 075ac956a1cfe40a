// Tests the scalar that carries error bounds: fp32 results in any order lie within them.
#include <truestep/verify/bounded.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/reference/scape/folds.hpp>
#include <truestep/verify/comparator.hpp>
#include <truestep/verify/scape/yardstick.hpp>
#include <truestep/verify/verdict.hpp>

#include "bounded_support.hpp"

namespace truestep::verify::scape {
namespace {

using reference::Vector;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A number as a float and as a bounded double, made by the same operations.
struct Twin {
    Bounded bound;
    float value = 0.0F;
};

Twin exact(float value) {
    return {Bounded(widened(value)), value};
}

/// A scalar of section 5: computed in double, rounded once.
Twin scalar(double value) {
    return {Bounded(value), static_cast<float>(value)};
}

class Randomness {
  public:
    explicit Randomness(unsigned seed) : engine_(seed) {}

    double number(double least, double greatest) {
        return std::uniform_real_distribution<double>(least, greatest)(engine_);
    }
    std::size_t below(std::size_t limit) {
        return std::uniform_int_distribution<std::size_t>(0, limit - 1)(engine_);
    }
    /// Draws a value of either sign, with its exponent spread evenly.
    float value(int least_exponent, int greatest_exponent) {
        const int exponent =
            least_exponent +
            static_cast<int>(below(static_cast<std::size_t>(greatest_exponent - least_exponent)));
        return static_cast<float>(std::ldexp(number(1.0, 2.0), exponent) * (below(2) == 0 ? 1.0 : -1.0));
    }
    void shuffle(std::vector<float>& values) { std::shuffle(values.begin(), values.end(), engine_); }

  private:
    std::mt19937 engine_;
};

float pairwise_sum(std::span<const float> values) {
    if (values.size() == 1)
        return values[0];
    return pairwise_sum(values.first(values.size() / 2)) + pairwise_sum(values.subspan(values.size() / 2));
}

float plain_sum(std::span<const float> values) {
    float sum = values[0];
    for (const float value : values.subspan(1))
        sum = sum + value;
    return sum;
}

Bounded bounded_sum(std::span<const float> values) {
    Bounded sum(widened(values[0]));
    for (const float value : values.subspan(1))
        sum = sum + Bounded(widened(value));
    return sum;
}

TEST(Bounded, AnFp32NumberHasNoError) {
    for (const float value : {0.0F, 1.0F, -0.1F, 0x1p-149F, 0x1.fffffep127F, 3.0F})
        EXPECT_EQ(Bounded(widened(value)).error(), 0.0) << value;
}

TEST(Bounded, AnotherScalarIsRoundedOnce) {
    for (const double value : {0.1, 0.9, -1.0 / 3.0, 1e-8, 1.0 + 0x1p-30}) {
        EXPECT_TRUE(within(Bounded(value), static_cast<float>(value)));
        EXPECT_EQ(Bounded(value).error(), Bounded::roundoff * std::abs(value));
    }
    EXPECT_EQ(Bounded(1e-60).error(), Bounded::smallest)
        << "what underflows may be off by the least number";
}

TEST(Bounded, ZeroStaysExact) {
    const Bounded zero(0.0);
    const Bounded inexact(0.1);
    const Bounded other(0.0);
    for (const Bounded& result : {zero + other, zero - other, zero * inexact, inexact * zero,
                                  zero / inexact, sqrt(zero), min(zero, other), zero * other}) {
        EXPECT_EQ(result.value(), 0.0);
        EXPECT_EQ(result.error(), 0.0);
    }
}

TEST(Bounded, AProductKeepsTheErrorOfItsFactors) {
    const Bounded product = Bounded(3.0, 0.5) * Bounded(-2.0, 0.25);
    EXPECT_EQ(product.value(), -6.0);
    EXPECT_GE(product.error(), 3.5 * 2.25 - 6.0);
    EXPECT_LE(product.error(), (3.5 * 2.25 - 6.0) + 1e-6);
}

TEST(Bounded, AQuotientKeepsTheErrorOfBothSides) {
    const Bounded quotient = Bounded(6.0, 0.5) / Bounded(2.0, 0.25);
    EXPECT_EQ(quotient.value(), 3.0);
    EXPECT_GE(quotient.error(), 6.5 / 1.75 - 3.0);
    EXPECT_LE(quotient.error(), 0.8);
}

TEST(Bounded, DivisionByWhatMayBeZeroIsUnbounded) {
    EXPECT_EQ((Bounded(1.0) / Bounded(1.0, 1.0)).error(), infinite);
    EXPECT_EQ((Bounded(1.0) / Bounded(-1.0, 2.0)).error(), infinite);
    EXPECT_EQ((Bounded(1.0) / Bounded(0.0)).error(), infinite);
    EXPECT_EQ((Bounded(0.0) / Bounded(0.0, 1.0)).error(), infinite);
    EXPECT_LT((Bounded(1.0) / Bounded(1.0, 0.999)).error(), infinite);
}

TEST(Bounded, ARootNearZeroKeepsTheErrorOfItsRadicand) {
    const Bounded root = sqrt(Bounded(0.0, 1e-12));
    EXPECT_EQ(root.value(), 0.0);
    EXPECT_GE(root.error(), 1e-6) << "the radicand may be 1e-12";
    EXPECT_LE(root.error(), 1.0001e-6);
    const Bounded next_to_zero = sqrt(Bounded(1e-12, 4e-12));
    EXPECT_GE(next_to_zero.error(), std::sqrt(5e-12) - 1e-6);
    EXPECT_GE(next_to_zero.error(), 1e-6) << "the radicand may be 0";
}

TEST(Bounded, ARootFarFromZeroHalvesTheRelativeError) {
    const Bounded root = sqrt(Bounded(4.0, 0.004));
    EXPECT_NEAR(root.error(), 0.001, 1e-5);
    EXPECT_GE(root.error(), 2.0 - std::sqrt(4.0 - 0.004));
}

TEST(Bounded, ARootOfANegativeNumberPassesNothing) {
    EXPECT_FALSE(within(sqrt(Bounded(-1.0)), 0.0F));
}

TEST(Bounded, TheLesserOfTwoMayBeEitherWhereTheyAreTooCloseToTell) {
    const Bounded clear = min(Bounded(1.0, 0.1), Bounded(2.0, 0.5));
    EXPECT_EQ(clear.value(), 1.0);
    EXPECT_EQ(clear.error(), 0.1);
    EXPECT_EQ(min(Bounded(2.0, 0.5), Bounded(1.0, 0.1)).error(), 0.1);
    const Bounded close = min(Bounded(1.0, 0.1), Bounded(1.2, 0.5));
    EXPECT_EQ(close.value(), 1.0);
    EXPECT_EQ(close.error(), 0.5);
}

TEST(Bounded, OrderOfASumDoesNotMatter) {
    Randomness random(1);
    for (int round = 0; round < 500; ++round) {
        std::vector<float> values;
        for (std::size_t count = 2 + random.below(63); count > 0; --count)
            values.push_back(random.value(-10, 10));
        const Bounded sum = bounded_sum(values);
        ASSERT_TRUE(within(sum, plain_sum(values)));
        ASSERT_TRUE(within(sum, pairwise_sum(values)));
        ASSERT_TRUE(within(sum, plain_sum(std::vector<float>(values.rbegin(), values.rend()))));
        for (int order = 0; order < 10; ++order) {
            random.shuffle(values);
            ASSERT_TRUE(within(sum, plain_sum(values)));
            ASSERT_TRUE(within(sum, pairwise_sum(values)));
        }
    }
}

TEST(Bounded, CancellationCostsWhatTheTermsWereWorth) {
    const Bounded sum = bounded_sum(std::vector{0x1p24F, 1.0F, -0x1p24F});
    EXPECT_EQ(sum.value(), 1.0);
    EXPECT_TRUE(within(sum, plain_sum(std::vector{0x1p24F, 1.0F, -0x1p24F}))) << "which is 0";
    EXPECT_TRUE(within(sum, plain_sum(std::vector{0x1p24F, -0x1p24F, 1.0F})));
    EXPECT_FALSE(within(sum, 6.0F));
}

/// Each term is lost in the sum, as when ranks are added in order.
TEST(Bounded, AFoldOverManyRanksLiesWithinTheBound) {
    for (const std::size_t ranks : {100U, 130U, 1000U, 5000U}) {
        std::vector<float> values(ranks, 0.999F);
        values.front() = 0x1p24F;
        ASSERT_EQ(plain_sum(values), 0x1p24F);
        EXPECT_TRUE(within(bounded_sum(values), plain_sum(values))) << ranks << " ranks";
    }
}

TEST(Bounded, TheErrorOfTheNormDoesNotGrowWithItsLength) {
    using Norm = reference::scape::ClipReal<Bounded>::type;
    constexpr Index size = 100'000;
    const Vector<Bounded> values = Vector<Bounded>::Constant(size, Bounded(1.0));
    const Bounded norm(reference::scape::norm_in_blocks<Norm>(values, problem::NormVersion::tree));
    EXPECT_LE(norm.error(), Bounded::roundoff * Bounded::longest_in_blocks * norm.value());
    EXPECT_GE(norm.error(), Bounded::roundoff * norm.value());
}

TEST(Bounded, RandomExpressionsInFp32LieWithinTheBound) {
    int finite_bounds = 0;
    int inexact = 0;
    for (unsigned seed = 0; seed < 400; ++seed) {
        Randomness random(seed);
        std::vector<Twin> pool;
        pool.reserve(100);
        for (int i = 0; i < 4; ++i)
            pool.push_back(exact(random.value(-8, 8)));
        for (int i = 0; i < 3; ++i)
            pool.push_back(scalar(random.number(-2.0, 2.0)));
        for (int operation = 0; operation < 60; ++operation) {
            const Twin a = pool[random.below(pool.size())];
            const Twin b = pool[random.below(pool.size())];
            Twin result;
            switch (random.below(6)) {
            case 0:
                result = {a.bound + b.bound, a.value + b.value};
                break;
            case 1:
                result = {a.bound - b.bound, a.value - b.value};
                break;
            case 2:
                result = {a.bound * b.bound, a.value * b.value};
                break;
            case 3:
                result = {a.bound / b.bound, a.value / b.value};
                break;
            case 4:
                if (!(a.bound.value() >= 0.0 && a.value >= 0.0F))
                    continue;
                result = {sqrt(a.bound), std::sqrt(a.value)};
                break;
            default:
                result = {min(a.bound, b.bound), std::min(a.value, b.value)};
            }
            // Overflow is not bounded here, and unbounded values need not be followed.
            if (!std::isfinite(result.bound.error()) || std::abs(result.bound.value()) > 0x1p60 ||
                !std::isfinite(result.value))
                continue;
            ++finite_bounds;
            inexact += result.bound.value() != widened(result.value) ? 1 : 0;
            ASSERT_TRUE(within(result.bound, result.value))
                << "seed " << seed << ", operation " << operation;
            pool.push_back(result);
        }
    }
    EXPECT_GT(finite_bounds, 10'000);
    EXPECT_GT(inexact, 5'000) << "else nothing was tested";
}

/// The element formulas of section 5 for one coordinate, in other orders and with fused operations.
TEST(Bounded, TheFormulasOfSection5LieWithinTheBoundInAnyOrder) {
    Randomness random(3);
    double worst = 0.0;
    for (int round = 0; round < 5000; ++round) {
        const int scale = static_cast<int>(random.below(40)) - 30;
        const Twin m = exact(random.value(scale - 4, scale + 2));
        const Twin g = exact(random.value(scale - 4, scale + 4));
        const Twin e = exact(random.below(4) == 0 ? 0.0F : random.value(scale - 2, scale + 6));
        const double beta1 = random.number(0.0, 0.99);
        const double beta2 = random.number(0.0, 0.999);
        const Twin b1 = scalar(beta1);
        const Twin a1 = scalar(1.0 - beta1);
        const Twin b2 = scalar(beta2);
        const Twin a2 = scalar(1.0 - beta2);
        const Twin eps = scalar(1e-8);

        const Bounded c = ((b1.bound * m.bound) + (a1.bound * g.bound)) + e.bound;
        const float bm = b1.value * m.value;
        const float ag = a1.value * g.value;
        for (const float value : {(bm + ag) + e.value, bm + (ag + e.value), (bm + e.value) + ag,
                                  std::fma(b1.value, m.value, ag) + e.value,
                                  std::fma(b1.value, m.value, std::fma(a1.value, g.value, e.value))})
            ASSERT_TRUE(within(c, value));

        const float M_value = (bm + ag) + e.value;
        const Bounded ghat = (c - (b1.bound * m.bound)) / a1.bound;
        ASSERT_TRUE(within(ghat, (M_value - bm) / a1.value));
        ASSERT_TRUE(within(ghat, std::fma(-b1.value, m.value, M_value) / a1.value));
        const float ghat_value = (M_value - bm) / a1.value;

        const Bounded v = (b2.bound * (m.bound * m.bound)) + (a2.bound * (ghat * ghat));
        ASSERT_TRUE(within(v, (b2.value * (m.value * m.value)) + (a2.value * (ghat_value * ghat_value))));
        ASSERT_TRUE(within(v, ((b2.value * m.value) * m.value) + ((a2.value * ghat_value) * ghat_value)));
        const float v_value = (b2.value * (m.value * m.value)) + (a2.value * (ghat_value * ghat_value));

        const Bounded u = c / (sqrt(v) + eps.bound);
        const float u_value = M_value / (std::sqrt(v_value) + eps.value);
        ASSERT_TRUE(within(u, u_value));
        const Twin inv1 = scalar(random.number(1.0, 10.0));
        const Twin invs2 = scalar(random.number(1.0, 10.0));
        ASSERT_TRUE(within((c * inv1.bound) / ((sqrt(v) * invs2.bound) + eps.bound),
                           (M_value * inv1.value) / ((std::sqrt(v_value) * invs2.value) + eps.value)));

        const Twin w = exact(random.value(-4, 2));
        const Twin decay = scalar(random.number(0.9, 1.0));
        const Twin lr = scalar(random.number(1e-4, 0.1));
        const Bounded updated = (w.bound * decay.bound) - (lr.bound * u);
        ASSERT_TRUE(within(updated, (w.value * decay.value) - (lr.value * u_value)));
        ASSERT_TRUE(within(updated, std::fma(-lr.value, u_value, w.value * decay.value)));
        ASSERT_TRUE(within(updated, std::fma(w.value, decay.value, -(lr.value * u_value))));
        if (std::isfinite(u.error()))
            worst = std::max(worst, share(u, u_value));
    }
    EXPECT_GT(worst, 0.1) << "a bound that nothing comes near proves little";
}

TEST(Bounded, TheMeanOfTheRanksLiesWithinTheBoundInAnyOrder) {
    Randomness random(6);
    for (int round = 0; round < 2000; ++round) {
        std::vector<float> ranks;
        for (std::size_t count = 1 + random.below(9); count > 0; --count)
            ranks.push_back(random.value(-8, 8));
        const auto workers = static_cast<float>(ranks.size());
        const Bounded mean = bounded_sum(ranks) / Bounded(widened(workers));
        for (int order = 0; order < 5; ++order) {
            ASSERT_TRUE(within(mean, plain_sum(ranks) / workers));
            ASSERT_TRUE(within(mean, pairwise_sum(ranks) / workers));
            random.shuffle(ranks);
        }
    }
}

TEST(Bounded, AReciprocalInPlaceOfADivisionLiesWithinTheSlack) {
    Randomness random(4);
    for (int round = 0; round < 5000; ++round) {
        const Twin a = exact(random.value(-20, 20));
        const Twin b = exact(random.value(-20, 20));
        const Bounded quotient = a.bound / b.bound;
        ASSERT_TRUE(
            within(Bounded(quotient.value(), rel_slack * quotient.error()), a.value * (1.0F / b.value)));
    }
}

TEST(Bounded, TheNormInBlocksLiesWithinTheBound) {
    Randomness random(5);
    for (const Index size : {Index{1}, Index{255}, Index{4096}, Index{10'000}, Index{40'000}}) {
        Vector<float> values(size);
        Vector<Bounded> bounds(size);
        for (Index i = 0; i < size; ++i) {
            values[i] = random.value(-6, 2);
            bounds[i] = Bounded(widened(values[i]));
        }
        for (const auto version : {problem::NormVersion::ascending, problem::NormVersion::tree}) {
            using Norm = reference::scape::ClipReal<Bounded>::type;
            const Bounded norm(reference::scape::norm_in_blocks<Norm>(bounds, version));
            EXPECT_TRUE(within(norm, reference::scape::norm_in_blocks<float>(values, version))) << size;
            EXPECT_TRUE(
                within(norm, static_cast<float>(reference::scape::norm_in_blocks<double>(values, version))))
                << size;
        }
    }
}

} // namespace
} // namespace truestep::verify::scape
