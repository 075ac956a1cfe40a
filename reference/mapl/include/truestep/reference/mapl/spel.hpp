// The reference of SPEL, Polar Express and the retraction (section 24), over any scalar.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <truestep/problem/mapl/settings.hpp>
#include <truestep/reference/mapl/matrix.hpp>

namespace truestep::reference::mapl {

using namespace problem::mapl;
using problem::mapl::Settings; // not that of <truestep/optimizer.hpp>

/// The coefficients c0, c1, c2 of an odd polynomial of degree 5.
using Quintic = std::array<double, 3>;
constexpr Quintic endless{1.875, -1.25, 0.375};

/// The polynomial of iteration t = 0, 1, ... of Polar Express: seven with a margin of 1.01 each,
/// then the endless one without a margin.
[[nodiscard]] inline Quintic polar_express(int t) {
    constexpr std::array<Quintic, 7> first{{{8.28721201814563, -23.595886519098837, 17.300387312530933},
                                            {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
                                            {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
                                            {3.3184196573706015, -2.488488024314874, 0.51004894012372},
                                            {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
                                            {1.891301407787398, -1.2679958271945868, 0.37680408948524835},
                                            {1.8750014808534479, -1.2500016453999487, 0.3750001645474248}}};
    if (t >= static_cast<int>(first.size()))
        return endless;
    const Quintic& c = first[static_cast<std::size_t>(t)];
    return {c[0] / 1.01, c[1] / std::pow(1.01, 3), c[2] / std::pow(1.01, 5)};
}

/// c0 x + c1 x^3 + c2 x^5: the polynomial's effect on a singular value.
[[nodiscard]] inline double value(const Quintic& c, double x) {
    return x * (c[0] + x * x * (c[1] + x * x * c[2]));
}

/// X := c0 X + c1 X (X^T X) + c2 X (X^T X)^2. Each power is the last one times X^T X.
template <class T>
[[nodiscard]] Matrix<T> iterated(const Quintic& c, const Matrix<T>& X) {
    const Matrix<T> square = times(transposed(X), X);
    const Matrix<T> third = times(X, square);
    const Matrix<T> fifth = times(third, square);
    return plus(plus(scaled(T(c[0]), X), scaled(T(c[1]), third)), scaled(T(c[2]), fifth));
}

/// Section 24: polar(M) by Polar Express.
template <class T>
[[nodiscard]] Matrix<T> polar(const Matrix<T>& M, int iterations) {
    if (M.cols() > M.rows())
        return transposed(polar(transposed(M), iterations));
    // In double, like all implementations: in fp32 the squares of 1e20 are infinite, and X would be
    // 0.
    double squares = 0.0;
    for (Index i = 0; i < M.rows(); ++i)
        for (Index j = 0; j < M.cols(); ++j)
            squares += static_cast<double>(M(i, j)) * static_cast<double>(M(i, j));
    const double scale = 1.01 * std::sqrt(squares) + 1e-7;
    Matrix<T> X =
        M.unaryExpr([scale](const T& entry) { return static_cast<T>(static_cast<double>(entry) / scale); });
    for (int t = 0; t < iterations; ++t)
        X = iterated(polar_express(t), X);
    return X;
}

/// Returns a point near the manifold to the manifold, without scaling.
template <class T>
[[nodiscard]] Matrix<T> retract(Matrix<T> B, int iterations) {
    for (int t = 0; t < iterations; ++t)
        B = iterated(endless, B);
    return B;
}

/// 1 - l_{T+1}, a bound of |polar(M) - X_T|_2 without rounding, if no singular value is less than
/// `least` times 1.01 |M|_F + 1e-7.
[[nodiscard]] inline double polar_bound(double least, int iterations) {
    double l = std::min(1e-3, least);
    for (int t = 0; t < iterations; ++t)
        l = value(polar_express(t), l);
    return 1.0 - l;
}

/// The greatest distance of a singular value from 1 after retraction, starting within `distance` of
/// the manifold.
[[nodiscard]] inline double retraction_bound(double distance, int iterations) {
    double low = 1.0 - distance;
    double high = 1.0 + distance;
    for (int t = 0; t < iterations; ++t) {
        low = value(endless, low);
        high = value(endless, high);
    }
    return std::max(std::abs(1.0 - low), std::abs(1.0 - high));
}

/// M - A sym(A^T M): M without the part that would leave the manifold at A.
template <class T>
[[nodiscard]] Matrix<T> tangent(const Matrix<T>& A, const Matrix<T>& M) {
    return minus(M, times(A, sym(times(transposed(A), M))));
}

/// The intermediate values of one step, under the specification's names.
template <class T>
struct SpelStep {
    Matrix<T> m;
    Matrix<T> d;
    Matrix<T> A;
};

/// m after a step with gradient g.
template <class T>
[[nodiscard]] Matrix<T> moment(const Settings& settings, const Matrix<T>& A, const Matrix<T>& m,
                               const Matrix<T>& g) {
    const Matrix<T> taken = settings.order == Order::project_first ? tangent(A, g) : g;
    return plus(scaled(T(settings.beta), m), scaled(T(1.0 - settings.beta), taken));
}

/// The direction d of that m.
template <class T>
[[nodiscard]] Matrix<T> direction(const Settings& settings, const Matrix<T>& A, const Matrix<T>& m) {
    return polar(settings.order == Order::project_first ? m : tangent(A, m), settings.direction_iterations);
}

/// One step of SPEL, `rate` is a: section 24, in its order.
template <class T>
[[nodiscard]] SpelStep<T> spel(const Settings& settings, const Matrix<T>& A, const Matrix<T>& m,
                               const Matrix<T>& g, double rate) {
    SpelStep<T> made;
    made.m = moment(settings, A, m, g);
    made.d = direction(settings, A, made.m);
    made.A = retract(minus(A, scaled(T(rate), made.d)), settings.retraction_iterations);
    return made;
}

} // namespace truestep::reference::mapl
