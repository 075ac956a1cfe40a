// How far rounding may move a matrix through an iteration of odd polynomials (sections 25 and 38). A header
// alone: whoever includes it compiles Eigen with the flags of its reference.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <Eigen/Core>
#include <Eigen/Eigenvalues>

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

/// For direction j the greatest product of slopes over the iterations from t on: between two
/// directions the derivative of a polynomial of singular values is such a product.
inline std::vector<double> steepest_slopes(const std::vector<QuinticCoefficients>& steps,
                                           const std::vector<Eigen::ArrayXd>& x, Eigen::Index j) {
    std::vector<double> steepest(x.size(), 0.0);
    steepest.back() = 1.0;
    const auto beside = [&](Eigen::Index i, double sign) {
        double product = 1.0;
        for (std::size_t t = steps.size(); t-- > 0;) {
            product *= slope(steps[t], x[t](j), sign * x[t](i));
            steepest[t] = std::max(steepest[t], std::abs(product));
        }
    };
    beside(j, 0.0);
    for (Eigen::Index i = 0; i < x.front().size(); ++i) {
        beside(i, 1.0);
        beside(i, -1.0);
    }
    return steepest;
}

} // namespace detail

[[nodiscard]] inline IteratedMatrix iterate(const Eigen::MatrixXd& first,
                                            const std::vector<QuinticCoefficients>& steps,
                                            const IterationRounding& rounding) {
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> parts(Eigen::MatrixXd(first.transpose() * first));
    const Eigen::MatrixXd& V = parts.eigenvectors();
    const Eigen::MatrixXd W = first * V;
    const Eigen::MatrixXd squares_of_rows = W.cwiseAbs2();
    const Eigen::MatrixXd squares_of_columns = V.cwiseAbs2();
    // Of X_t: its singular values x[t], and X_t V = W diag(factors).
    std::vector<Eigen::ArrayXd> x{parts.eigenvalues().array().max(0.0).sqrt()};
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
        const std::vector<double> steepest = detail::steepest_slopes(steps, x, j);
        off(j) = steepest[0] * (before + rounding.coherent * x[0](j));
        for (std::size_t t = 0; t < steps.size(); ++t)
            off(j) += steepest[t + 1] *
                      (added[t] + rounding.coherent * detail::rounded(steps[t], x[t](j), x[t](j)));
    }
    return {W * factors.matrix().asDiagonal() * V.transpose(), V, x.back(), off};
}

} // namespace truestep::verify
