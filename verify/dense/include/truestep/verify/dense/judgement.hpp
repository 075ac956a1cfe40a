// How Muon's matrices are judged where sums round (section 38), and the reference over scalars that
// carry bounds.
#pragma once

#include <algorithm>
#include <cmath>

#include <truestep/reference/dense/reference.hpp>
#include <truestep/verify/bounded_in_eigen.hpp>

namespace truestep::verify::dense {

using namespace reference::dense;

/// O as section 37 makes it in double, and how far an implementation's may be from it.
struct Judgement {
    struct Distance {
        double off = 0.0;
        double limit = 0.0;

        [[nodiscard]] bool ok() const { return off <= limit; }
    };

    Matrix<double> O;
    Eigen::MatrixXd directions; ///< in columns; of the shorter extent
    Eigen::ArrayXd limits;      ///< of the difference times each of them
    bool proves = true;         ///< some limit is below what O has in that direction

    /// The distance in the direction that takes the greatest share of its limit, which is `factor`
    /// times that of O, and `more`. `difference` has O's shape.
    [[nodiscard]] Distance greatest(const Matrix<double>& difference, double factor = 1.0,
                                    double more = 0.0) const;
};

/// `off` is how far U may be from the implementation's, as a Frobenius norm; `in_bf16`: all of it is
/// computed in bf16, whatever the group's setting is.
[[nodiscard]] Judgement judge(const Group& group, const Matrix<double>& U, double off = 0.0,
                              bool in_bf16 = false);

} // namespace truestep::verify::dense

/// The bound of each value is that on the whole matrix: `judge` knows more.
template <class Format>
struct truestep::reference::dense::Orthogonalizer<truestep::verify::BoundedIn<Format>> {
    using T = verify::BoundedIn<Format>;

    [[nodiscard]] static Matrix<T> of(const Group& group, const Matrix<T>& U) {
        double squares = 0.0;
        for (Index i = 0; i < U.size(); ++i)
            squares += U.data()[i].error() * U.data()[i].error();
        const auto made = verify::dense::judge(group, U.template cast<double>(), std::sqrt(squares),
                                               Format::roundoff > verify::Fp32Format::roundoff);
        const double error = 0.5 * made.limits.matrix().norm();
        return made.O.unaryExpr([error](double value) { return T(value, error); });
    }
};

/// A norm made in blocks (section 6). The bound on a norm of vectors that are off by e is the norm
/// of e.
template <class Format>
struct truestep::reference::dense::GlobalNorm<truestep::verify::BoundedIn<Format>> {
    using Real = verify::BoundedIn<Format>;

    [[nodiscard]] static Real of(const Vector<Real>& mean, const problem::Layout&) {
        double squares = 0.0;
        double off = 0.0;
        for (const Real& value : mean) {
            squares += value.value() * value.value();
            off += value.error() * value.error();
        }
        const double norm = std::sqrt(squares);
        const double terms = std::min(static_cast<double>(mean.size()), Format::longest_in_blocks);
        return {norm, std::sqrt(off) + (terms + 2.0) * Format::roundoff * norm};
    }
};
