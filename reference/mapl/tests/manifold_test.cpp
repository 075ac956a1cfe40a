// SPEL, Polar Express and the retraction: section 24.
#include <gtest/gtest.h>

#include <truestep/reference/mapl/spel.hpp>

#include "support.hpp"

namespace truestep::reference::mapl {
namespace {

using testing::drawn;
using testing::exact_polar;
using testing::norm2;
using testing::Real;

double off(const Real& A) {
    return norm2(A.transpose() * A - Real::Identity(A.cols(), A.cols()));
}

TEST(MaplPolar, LiesWithinItsBound) {
    for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {4, 1}, {4, 4}, {30, 6}, {6, 30}})
        for (unsigned seed = 1; seed <= 20; ++seed) {
            const Real M = drawn(rows, cols, seed);
            const auto values = testing::svd(M).singularValues();
            const double least = values(values.size() - 1) / (1.01 * M.norm());
            for (const int iterations : {5, 6, 8, 10}) {
                const double bound = polar_bound(least, iterations);
                EXPECT_LE(norm2(polar(M, iterations) - exact_polar(M)), bound + 1e-13 / least)
                    << rows << "x" << cols << " seed " << seed << " iterations " << iterations;
            }
        }
}

// Over all singular values from 1e-3 on. Random matrices show 0.26 with five iterations and 3e-3
// with six.
TEST(MaplPolar, EightIterationsAreEnoughAndFiveAreNot) {
    double worst5 = 0.0;
    double worst6 = 0.0;
    double worst8 = 0.0;
    for (double value_of = 1e-3; value_of < 0.99; value_of *= 1.003) {
        double x = value_of;
        for (int t = 0; t < 8; ++t) {
            x = value(polar_express(t), x);
            double& worst = t == 4 ? worst5 : t == 5 ? worst6 : worst8;
            if (t == 4 || t == 5 || t == 7)
                worst = std::max(worst, std::abs(x * x - 1.0));
        }
    }
    EXPECT_GT(worst5, 0.2);
    EXPECT_LT(worst5, 0.3);
    EXPECT_GT(worst6, 2e-3);
    EXPECT_LT(worst6, 2e-2);
    EXPECT_LT(worst8, 1e-14);
    EXPECT_LT(polar_bound(1e-3, 8), 1e-14);
    EXPECT_GT(polar_bound(1e-3, 5), 0.1);
}

TEST(MaplPolar, OfZeroIsZeroAndAZeroSingularValueStays) {
    const Real zero = Real::Zero(5, 3);
    EXPECT_EQ(polar(zero, 8), zero);
    Real M = Real::Zero(4, 2);
    M(1, 0) = 3.0;
    const Real d = polar(M, 8);
    EXPECT_NEAR(d(1, 0), 1.0, 1e-14);
    EXPECT_EQ(d.col(1), Real::Zero(4, 1));
}

// Neither the squares of great values nor their sum may overflow, and only 0 gives 0.
TEST(MaplPolar, OfGreatAndOfSmallValuesIsThatOfOthers) {
    const Matrix<float> M = drawn(6, 2, 3).cast<float>();
    const Real expected = polar(M, 8).cast<double>();
    for (const float factor : {0x1p40F, 0x1p80F, 0x1p126F})
        EXPECT_LE(norm2(polar(scaled(factor, M), 8).cast<double>() - expected), 1e-4) << factor;
    EXPECT_GT(polar(scaled(0x1p-140F, M), 8).cast<double>().norm(), 0.0);
}

TEST(MaplRetract, LiesWithinItsBound) {
    EXPECT_LT(retraction_bound(0.02, 2), 2.1e-13);
    for (const double rate : {0.02, 0.1, 0.3, 0.51})
        for (unsigned seed = 1; seed <= 20; ++seed) {
            const Real A = exact_polar(drawn(12, 4, seed));
            const Real d = exact_polar(drawn(12, 4, seed + 100));
            for (const int iterations : {1, 2, 5}) {
                const Real B = retract<double>(A - rate * d, iterations);
                const double bound = retraction_bound(rate, iterations);
                EXPECT_LE(norm2(B - exact_polar(A - rate * d)), bound + 1e-14);
                EXPECT_LE(off(B), 2.0 * bound + bound * bound + 1e-14);
            }
        }
}

TEST(MaplRetract, BeyondItsBasinItDoesNotComeBack) {
    EXPECT_GT(retraction_bound(0.54, 30), 0.5);
    EXPECT_LT(retraction_bound(0.52, 30), 1e-12);
}

TEST(MaplRetract, ChangesNoBitOfAnExactPoint) {
    Matrix<float> A = Matrix<float>::Constant(4, 2, 0.5F);
    A(1, 1) = A(3, 1) = -0.5F;
    EXPECT_EQ(retract(A, 2), A);
}

// gR is tangent: A^T gR + gR^T A = 0 (property 6).
TEST(MaplSpel, TheProjectionIsTangent) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        const Real A = exact_polar(drawn(9, 3, seed));
        const Real g = tangent(A, drawn(9, 3, seed + 50));
        EXPECT_LE(norm2(A.transpose() * g + g.transpose() * A), 1e-14);
    }
}

// Property 1: from any start, ten thousand steps, both orders, in the normative arithmetic.
TEST(MaplSpel, StaysOnTheManifold) {
    for (const Order order : {Order::project_first, Order::momentum_first}) {
        const Settings settings{.width = 10, .rank = 3, .order = order};
        const std::vector<float> start = first_subspace(10, 3, 5);
        Matrix<float> A = Eigen::Map<const Matrix<float>>(start.data(), 10, 3);
        Matrix<float> m = Matrix<float>::Zero(10, 3);
        double worst = 0.0;
        for (unsigned step = 1; step <= 10000; ++step) {
            const Matrix<float> g = drawn(10, 3, step).cast<float>();
            const SpelStep<float> made = spel(settings, A, m, g, 0.02);
            A = made.A;
            m = made.m;
            worst = std::max(worst, off(A.cast<double>()));
        }
        EXPECT_LE(worst, manifold_tolerance(10, 3));
        EXPECT_GT(worst, 0.0);
        RecordProperty("worst", std::to_string(worst));
    }
}

// Property 18, in double: the orders agree after one step from rest, and differ after two.
TEST(MaplSpel, TheOrdersPartAtStepTwo) {
    Settings settings{.width = 7, .rank = 2};
    const Real A = exact_polar(drawn(7, 2, 1));
    const Real zero = Real::Zero(7, 2);
    const auto first = spel(settings, A, zero, drawn(7, 2, 2), 0.05);
    const auto second = spel(settings, first.A, first.m, drawn(7, 2, 3), 0.05);
    settings.order = Order::momentum_first;
    const auto other_first = spel(settings, A, zero, drawn(7, 2, 2), 0.05);
    const auto other_second = spel(settings, other_first.A, other_first.m, drawn(7, 2, 3), 0.05);
    EXPECT_LE(norm2(first.A - other_first.A), 1e-14);
    EXPECT_GT(norm2(second.A - other_second.A), 1e-4);
}

// Property 8: A -> A O, m -> m O rotates the trajectory, too.
TEST(MaplSpel, GoesAlongWithARotation) {
    const Settings settings{.width = 8, .rank = 3};
    const Real O = exact_polar(drawn(3, 3, 9));
    Real A = exact_polar(drawn(8, 3, 1));
    Real m = Real::Zero(8, 3);
    Real B = A * O;
    Real n = m;
    for (unsigned step = 0; step < 20; ++step) {
        const Real g = drawn(8, 3, 30 + step);
        const auto one = spel(settings, A, m, g, 0.05);
        const auto other = spel(settings, B, n, Real(g * O), 0.05);
        A = one.A;
        m = one.m;
        B = other.A;
        n = other.m;
        EXPECT_LE(norm2(A * O - B), 1e-12);
    }
}

} // namespace
} // namespace truestep::reference::mapl
