// How far rounding may move a matrix through an iteration of odd polynomials (section 38). Whoever includes
// it compiles Eigen with the flags of its reference.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <Eigen/Core>

#include <truestep/verify/decomposition.hpp>

namespace truestep::verify {

/// X := c0 X + c1 X (X^T X) + c2 X (X^T X)^2: one iteration, by its coefficients.
using QuinticCoefficients = std::array<double, 3>;

/// The roundings of an implementation.
struct IterationRounding {
    double unit = 0.0;     ///< of independent roundings, times the greatest norm of a row or column
    double coherent = 0.0; ///< of roundings that all go one way, times the singular value itself
    double first = 0.0;    ///< how far the first matrix may be off besides, in any direction
};

/// The result of an iteration on a matrix that is not wide, and how far an implementation may be
/// from it.
struct IteratedMatrix {
    Eigen::MatrixXd result;
    Eigen::MatrixXd directions; ///< right singular vectors of the first matrix, in columns
    Eigen::ArrayXd singular;    ///< the result's singular values, by direction
    Eigen::ArrayXd off;         ///< of the result times each direction
};

namespace detail {

/// c0 x + c1 x^3 + c2 x^5.
inline double value(const QuinticCoefficients& c, double x) {
    return x * (c[0] + x * x * (c[1] + x * x * c[2]));
}

/// (p(x) - p(y)) / (x - y); with -y for y it is (p(x) + p(y)) / (x + y). Nothing cancels.
inline double slope(const QuinticCoefficients& c, double x, double y) {
    const double square = x * x + x * y + y * y;
    return c[0] + c[1] * square + c[2] * (x * x * square + y * y * (x * y + y * y));
}

/// The unit of the error that rounding adds in one iteration, to an X with singular values up to s
/// in whose place `size` stands.
inline double rounded(const QuinticCoefficients& c, double size, double s) {
    return size * (std::abs(c[0]) + s * s * (std::abs(c[1]) + s * s * std::abs(c[2])));
}

inline double greatest_root(const Eigen::VectorXd& squares) {
    return std::sqrt(std::max(squares.maxCoeff(), 0.0));
}

/// The derivative of the iterations from t on between direction j and itself, and to all others:
/// between two directions it is a product of slopes.
struct Slopes {
    std::vector<double> own;
    std::vector<double> others; ///< as a root of the mean square: roundings prefer no direction
};

inline Slopes slopes_of(const std::vector<QuinticCoefficients>& steps, const std::vector<Eigen::ArrayXd>& x,
                        Eigen::Index rows, Eigen::Index j) {
    const Eigen::Index count = x.front().size();
    Slopes made{std::vector<double>(x.size(), 1.0), std::vector<double>(x.size(), 0.0)};
    made.others.back() = 1.0;
    const auto add = [&](Eigen::Index i, double sign, double weight) {
        double product = 1.0;
        for (std::size_t t = steps.size(); t-- > 0;) {
            product *= slope(steps[t], x[t](j), sign * x[t](i));
            made.others[t] += weight * product * product;
            if (i == j && sign == 1.0)
                made.own[t] = std::abs(product);
        }
    };
    const auto share = 1.0 / static_cast<double>(rows);
    add(j, 0.0, static_cast<double>(rows - count) * share);
    for (Eigen::Index i = 0; i < count; ++i) {
        add(i, 1.0, 0.5 * share);
        add(i, -1.0, 0.5 * share);
    }
    for (std::size_t t = 0; t < steps.size(); ++t)
        made.others[t] = std::sqrt(made.others[t]);
    return made;
}

} // namespace detail

[[nodiscard]] inline IteratedMatrix iterate(const Eigen::MatrixXd& first,
                                            const std::vector<QuinticCoefficients>& steps,
                                            const IterationRounding& rounding) {
    const EigenParts parts = eigen_parts(first.transpose() * first);
    const Eigen::MatrixXd& V = parts.vectors;
    const Eigen::MatrixXd W = first * V;
    const Eigen::MatrixXd squares_of_rows = W.cwiseAbs2();
    const Eigen::MatrixXd squares_of_columns = V.cwiseAbs2();
    // Of X_t: its singular values x[t], and X_t V = W diag(factors).
    std::vector<Eigen::ArrayXd> x{parts.values.array().max(0.0).sqrt()};
    Eigen::ArrayXd factors = Eigen::ArrayXd::Ones(x.front().size());
    std::vector<double> added;
    double before = rounding.first;
    for (std::size_t t = 0; t < steps.size(); ++t) {
        const QuinticCoefficients& c = steps[t];
        const double row = std::max(detail::greatest_root(squares_of_rows * factors.square().matrix()),
                                    detail::greatest_root(squares_of_columns * x.back().square().matrix()));
        if (t == 0)
            before += rounding.unit * row;
        added.push_back(rounding.unit * detail::rounded(c, row, x.back().maxCoeff()));
        factors *= x.back().unaryExpr([&c](double of) { return detail::slope(c, of, 0.0); });
        x.emplace_back(x.back().unaryExpr([&c](double of) { return detail::value(c, of); }));
    }
    Eigen::ArrayXd off(x.front().size());
    for (Eigen::Index j = 0; j < off.size(); ++j) {
        const detail::Slopes slopes = detail::slopes_of(steps, x, first.rows(), j);
        off(j) = slopes.others[0] * before + slopes.own[0] * rounding.coherent * x[0](j);
        for (std::size_t t = 0; t < steps.size(); ++t)
            off(j) += slopes.others[t + 1] * added[t] +
                      slopes.own[t + 1] * rounding.coherent * detail::rounded(steps[t], x[t](j), x[t](j));
    }
    return {W * factors.matrix().asDiagonal() * V.transpose(), V, x.back(), off};
}

} // namespace truestep::verify
