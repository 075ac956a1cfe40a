#pragma once

#include <cmath>
#include <random>

#include <Eigen/SVD>

#include <truestep/reference/mapl/matrix.hpp>

namespace truestep::reference::mapl::testing {

using Real = Matrix<double>;

inline Real drawn(Index rows, Index cols, unsigned seed) {
    std::mt19937_64 random(seed);
    Real made(rows, cols);
    for (Index i = 0; i < rows; ++i)
        for (Index j = 0; j < cols; ++j)
            made(i, j) = static_cast<double>(random() >> 11U) * 0x1p-52 - 1.0;
    return made;
}

inline Eigen::JacobiSVD<Eigen::MatrixXd> svd(const Real& of) {
    return Eigen::JacobiSVD<Eigen::MatrixXd>(Eigen::MatrixXd(of),
                                             Eigen::ComputeThinU | Eigen::ComputeThinV);
}

/// The polar factor from singular values, computed another way than in the reference.
inline Real exact_polar(const Real& of) {
    const auto parts = svd(of);
    return parts.matrixU() * parts.matrixV().transpose();
}

inline double norm2(const Real& of) {
    return of.size() == 0 ? 0.0 : svd(of).singularValues()(0);
}

} // namespace truestep::reference::mapl::testing
