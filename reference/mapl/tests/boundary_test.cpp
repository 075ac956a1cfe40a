// A boundary forward and backward: section 22, against finite differences and closed forms.
#include <gtest/gtest.h>

#include <truestep/reference/mapl/boundary.hpp>
#include <truestep/reference/mapl/spel.hpp>

#include "support.hpp"

namespace truestep::reference::mapl {
namespace {

using testing::drawn;
using testing::exact_polar;
using testing::Real;

constexpr Index N = 6;
constexpr Index D = 5;
constexpr Index r = 2;
const Ids ids{2, 0, 2, 1, 2, 3};

Boundary<double> boundary(Anchors anchors) {
    Boundary<double> made;
    made.A = exact_polar(drawn(D, r, 1));
    if (anchors == Anchors::none)
        return made;
    made.p = {drawn(4, r, 2), transposed(exact_polar(drawn(D, r, 3)))};
    made.q = anchors == Anchors::two
                 ? Anchor<double>{drawn(4, r, 4), transposed(exact_polar(drawn(D, r, 5)))}
                 : made.p;
    made.trains_anchors = anchors != Anchors::fixed;
    return made;
}

/// The loss is <W, tanh(Xhat)>, which is nowhere linear.
double loss(const Boundary<double>& of, const Real& X, const Real& W) {
    return (of.forward(X, ids).Xhat.array().tanh() * W.array()).sum();
}

/// Central differences of a loss in each entry.
template <class Loss>
Real differences(Real& at, const Loss& loss_of) {
    Real made(at.rows(), at.cols());
    constexpr double h = 1e-5;
    for (Index i = 0; i < at.size(); ++i) {
        const double kept = at.data()[i];
        at.data()[i] = kept + h;
        const double up = loss_of();
        at.data()[i] = kept - h;
        made.data()[i] = (up - loss_of()) / (2.0 * h);
        at.data()[i] = kept;
    }
    return made;
}

class MaplBoundary : public ::testing::TestWithParam<Anchors> {};

TEST_P(MaplBoundary, GradientsAreThoseOfFiniteDifferences) {
    Boundary<double> of = boundary(GetParam());
    Real X = drawn(N, D, 6);
    const Real W = drawn(N, D, 7);
    const auto forward = of.forward(X, ids);
    const Real G = (W.array() * (1.0 - forward.Xhat.array().tanh().square())).matrix();
    auto gradients = of.no_gradients();
    const auto backward = of.backward(G, forward, gradients);
    const auto lost = [&] { return loss(of, X, W); };
    constexpr double near = 1e-8;
    EXPECT_LE((backward.dX - differences(X, lost)).norm(), near);
    EXPECT_LE((gradients.of_basis() - differences(of.A, lost)).norm(), near);
    if (GetParam() == Anchors::two) {
        EXPECT_LE((gradients.dEp - differences(of.p.E, lost)).norm(), near);
        EXPECT_LE((gradients.dEq - differences(of.q.E, lost)).norm(), near);
    }
    if (GetParam() == Anchors::shared) {
        // Both sides share one table, so a change affects both.
        Real E = of.p.E;
        const Real both = differences(E, [&] {
            of.p.E = of.q.E = E;
            return lost();
        });
        EXPECT_LE((gradients.of_anchors() - both).norm(), near);
    }
    if (GetParam() == Anchors::fixed || GetParam() == Anchors::none) {
        EXPECT_EQ(gradients.dEp.size() + gradients.dEq.size(), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Anchors, MaplBoundary,
                         ::testing::Values(Anchors::none, Anchors::fixed, Anchors::shared, Anchors::two),
                         [](const auto& of) { return std::string(name(of.param)); });

// Section 22's closed form: L = |Xhat - X|^2 / 2. The sender's part is 0, the receiver's is that of PCA.
TEST(MaplPca, TheReceiversPartIsTheGradientAndTheSendersIsZero) {
    const Boundary<double> of = boundary(Anchors::none);
    const Real X = drawn(N, D, 8);
    const auto forward = of.forward(X, ids);
    auto gradients = of.no_gradients();
    static_cast<void>(of.backward(forward.Xhat - X, forward, gradients));
    const Real closed = -(Real::Identity(D, D) - of.A * of.A.transpose()) * X.transpose() * X * of.A;
    EXPECT_LE(gradients.sender.norm(), 1e-14);
    EXPECT_LE((gradients.receiver - closed).norm(), 1e-13);
    EXPECT_GT(closed.norm(), 0.1);
}

/// The energy in the subspace after training with these parts of the gradient.
double trained(bool sender, bool receiver, const Real& X) {
    Boundary<double> of = boundary(Anchors::none);
    const Settings settings{.width = D, .rank = r};
    Real m = Real::Zero(D, r);
    for (int step = 0; step < 600; ++step) {
        const auto forward = of.forward(X, ids);
        auto gradients = of.no_gradients();
        static_cast<void>(of.backward(forward.Xhat - X, forward, gradients));
        Real g = Real::Zero(D, r);
        if (sender)
            g += gradients.sender;
        if (receiver)
            g += gradients.receiver;
        const auto made = spel(settings, of.A, m, g, 0.05 / (1.0 + 0.05 * step));
        of.A = made.A;
        m = made.m;
    }
    return (X * of.A).squaredNorm();
}

// Property 7.
TEST(MaplPca, ConvergesToTheGreatestSingularVectorsAndNotWithTheSendersPartAlone) {
    const Real X = drawn(N, D, 8) * Real(Eigen::Matrix<double, D, 1>(3, 2, 1, 0.5, 0.2).asDiagonal());
    const auto values = testing::svd(X).singularValues();
    const double best = values.head(r).squaredNorm();
    EXPECT_NEAR(trained(true, true, X), best, 1e-3 * best);
    EXPECT_LT(trained(true, false, X), 0.9 * best);
}

// Property 2, and that E P is added back.
TEST(MaplBoundaries, FullRankAndWhatTheAnchorsSpanAreLossless) {
    Boundary<double> full = boundary(Anchors::none);
    full.A = exact_polar(drawn(D, D, 11));
    const Real X = drawn(N, D, 12);
    EXPECT_LE((full.forward(X, ids).Xhat - X).norm(), 1e-14);
    const Boundary<double> shared = boundary(Anchors::shared);
    const Real in_reach = shared.p.gathered(ids) * shared.p.P + drawn(N, r, 13) * shared.A.transpose();
    EXPECT_LE((shared.forward(in_reach, ids).Xhat - in_reach).norm(), 1e-14);
}

TEST(MaplBoundaries, WithAPermutationEveryBitComesBack) {
    Boundary<float> of;
    of.A = Matrix<float>::Zero(3, 3);
    of.A(0, 2) = of.A(1, 0) = 1.0F;
    of.A(2, 1) = -1.0F;
    const Matrix<float> X = drawn(4, 3, 14).cast<float>();
    EXPECT_EQ(of.forward(X, {0, 0, 0, 0}).Xhat, X);
}

} // namespace
} // namespace truestep::reference::mapl
