// Bounds the rounding error of a MAPL subspace step, and judges distances and nearest codewords.
#include <truestep/verify/mapl/judgement.hpp>

#include <algorithm>
#include <cmath>

#include <truestep/verify/decomposition.hpp>

namespace truestep::verify::mapl {

namespace {

constexpr double roundoff = 0x1p-24;
/// The error of a sum of D terms is sqrt(D) roundings if they are independent; this factor is a
/// margin for the rest.
constexpr double rounding_room = 2.0;

} // namespace

bool is_nearest(const Quantizer<float>::Row& v, const Matrix<float>& book, Index word) {
    return Quantizer<float>::nearest(v, book) == word;
}

bool is_nearest(const Quantizer<Bounded>::Row& v, const Matrix<Bounded>& book, Index word) {
    const auto distance = [&](Index of) { return Quantizer<Bounded>::distance(v, book.row(of)); };
    const Bounded chosen = distance(word);
    for (Index other = 0; other < book.rows(); ++other)
        if (const Bounded off = distance(other);
            chosen.value() - 2.0 * chosen.error() > off.value() + 2.0 * off.error())
            return false;
    return true;
}

double spectral_norm(const Matrix<double>& of) {
    if (of.size() == 0)
        return 0.0;
    if (!of.allFinite())
        return HUGE_VAL;
    return singular_parts(of).values(0);
}

double manifold_limit(const Settings& settings, double rate, double before) {
    // d's singular values are at most 2 - l_{T+1}: after few iterations they exceed 1.
    const double step = rate * (1.0 + polar_bound(1e-3, settings.direction_iterations));
    const double left = retraction_bound(before + step, settings.retraction_iterations);
    return 2.0 * left + left * left + manifold_tolerance(settings.width, settings.rank);
}

Judgement::Distance Judgement::greatest(const Matrix<double>& actual) const {
    const Eigen::MatrixXd off = (actual - a) * directions;
    Distance worst{-1.0, 1.0};
    for (Index j = 0; j < off.cols(); ++j) {
        const double length = off.col(j).norm();
        if (!(length * worst.limit <= worst.off * limits(j)))
            worst = {length, limits(j)};
    }
    return worst;
}

namespace {

/// (p(x) - p(y)) / (x - y); with -y for y it is (p(x) + p(y)) / (x + y). Nothing cancels.
double slope(const Quintic& c, double x, double y) {
    const double square = x * x + x * y + y * y;
    return c[0] + c[1] * square + c[2] * (x * x * square + y * y * (x * y + y * y));
}

/// The unit of the error that rounding adds in any direction, in one iteration, to an X whose rows
/// and columns have at most length `row` and whose singular values are at most s.
double rounded(const Quintic& c, double row, double s) {
    return row * (std::abs(c[0]) + s * s * (std::abs(c[1]) + s * s * std::abs(c[2])));
}

double greatest_root(const Eigen::VectorXd& squares) {
    return std::sqrt(std::max(squares.maxCoeff(), 0.0));
}

/// The possible error of X_T v_j for each right singular vector v_j of X_0, if X_0 is off by
/// `first` and each iteration adds `added[t]`. Between two directions the derivative of a
/// polynomial of singular values is a product of its slopes over the iterations that follow.
Eigen::ArrayXd off_by_direction(const std::vector<Eigen::ArrayXd>& x, double first,
                                const std::vector<double>& added) {
    const Index rank = x.front().size();
    Eigen::ArrayXd off(rank);
    std::vector<double> steepest(x.size());
    for (Index j = 0; j < rank; ++j) {
        std::ranges::fill(steepest, 0.0);
        steepest.back() = 1.0;
        const auto beside = [&](Index i, double sign) {
            double product = 1.0;
            for (std::size_t t = x.size() - 1; t-- > 0;) {
                product *= slope(polar_express(static_cast<int>(t)), x[t](j), sign * x[t](i));
                steepest[t] = std::max(steepest[t], std::abs(product));
            }
        };
        beside(j, 0.0);
        for (Index i = 0; i < rank; ++i) {
            beside(i, 1.0);
            beside(i, -1.0);
        }
        off(j) = steepest[0] * first;
        for (std::size_t t = 0; t < added.size(); ++t)
            off(j) += steepest[t + 1] * added[t];
    }
    return off;
}

} // namespace

Judgement next_subspace(const Settings& settings, const std::vector<float>& a, const std::vector<float>& m,
                        double rate, double behind) {
    const auto width = static_cast<double>(settings.width);
    const double unit = rounding_room * roundoff * std::sqrt(width);
    const Eigen::MatrixXd A = rows_of<double>(a, settings.rank);
    const Eigen::MatrixXd given = rows_of<double>(m, settings.rank);
    Eigen::MatrixXd M = given;
    double moved = 0.0; // how far M may differ from the implementation's
    if (settings.order == Order::momentum_first) {
        const Eigen::MatrixXd inner = A.transpose() * given;
        M -= A * (0.5 * (inner + inner.transpose()));
        moved = unit * greatest_root(eigen_parts(given.transpose() * given).values);
    }
    if (behind > 0.0)
        moved += manifold_tolerance(settings.width, settings.rank) * std::max(given.norm(), behind);
    const double scale = 1.01 * M.norm() + 1e-7;
    const Eigen::MatrixXd X = M / scale;
    const EigenParts parts = eigen_parts(X.transpose() * X);
    const Eigen::MatrixXd& V = parts.vectors;
    const Eigen::MatrixXd W = X * V;
    const Eigen::MatrixXd squares_of_rows = W.cwiseAbs2();
    const Eigen::MatrixXd squares_of_columns = V.cwiseAbs2();
    // Of X_t: its singular values x[t], and X_t V = W diag(factors).
    std::vector<Eigen::ArrayXd> x{parts.values.array().max(0.0).sqrt()};
    Eigen::ArrayXd factors = Eigen::ArrayXd::Ones(settings.rank);
    std::vector<double> added;
    double first = moved / scale;
    for (int t = 0; t < settings.direction_iterations; ++t) {
        const Quintic c = polar_express(t);
        const double row = std::max(greatest_root(squares_of_rows * factors.square().matrix()),
                                    greatest_root(squares_of_columns * x.back().square().matrix()));
        if (t == 0)
            first += unit * row;
        added.push_back(unit * rounded(c, row, x.back().maxCoeff()));
        factors *= x.back().unaryExpr([&c](double of) { return slope(c, of, 0.0); });
        x.emplace_back(x.back().unaryExpr([&c](double of) { return value(c, of); }));
    }
    const Eigen::ArrayXd off = off_by_direction(x, first, added).min(2.0);
    Eigen::MatrixXd B = A - rate * (W * factors.matrix().asDiagonal() * V.transpose());
    const double size = 1.0 + rate * x.back().maxCoeff();
    for (int t = 0; t < settings.retraction_iterations; ++t) {
        const Eigen::MatrixXd S = B.transpose() * B;
        B = B * (endless[1] * S + endless[2] * (S * S) +
                 endless[0] * Eigen::MatrixXd::Identity(settings.rank, settings.rank));
    }
    // The retraction takes the symmetric part of A^T times the error of d, and so spreads each
    // direction's error over all: a share of 1 / sqrt(D), because rounding prefers no direction.
    Judgement made;
    made.a = B;
    made.directions = V;
    made.limits = 2.0 * rate * (off + off.matrix().norm() / std::sqrt(width)) +
                  settings.retraction_iterations * unit * rounded(endless, size, size);
    made.limit = made.limits.matrix().norm();
    return made;
}

} // namespace truestep::verify::mapl
