// Matrices and their operations in the specification's order of additions.
#pragma once

#include <cassert>

#include <truestep/reference/vector.hpp>

namespace truestep::reference::mapl {

using problem::Index;

/// A matrix, row by row. T is float for the normative arithmetic of section 5, and double for an
/// independent measure.
template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A B: each entry is summed from +0 in ascending order of the inner index, and every product is
/// rounded (section 22). Eigen's own product sums in another order.
template <class T>
[[nodiscard]] Matrix<T> times(const Matrix<T>& a, const Matrix<T>& b) {
    assert(a.cols() == b.rows());
    const Matrix<T> columns = b.transpose(); // contiguous, as they are read
    Matrix<T> product(a.rows(), b.cols());
    for (Index i = 0; i < a.rows(); ++i)
        for (Index j = 0; j < b.cols(); ++j) {
            T sum(0.0);
            for (Index k = 0; k < a.cols(); ++k)
                sum = sum + (a(i, k) * columns(j, k));
            product(i, j) = sum;
        }
    return product;
}

template <class T>
[[nodiscard]] Matrix<T> transposed(const Matrix<T>& a) {
    return a.transpose();
}

/// Works entry by entry: with a scalar, and with two matrices of the same shape.
template <class T>
[[nodiscard]] Matrix<T> scaled(T factor, const Matrix<T>& a) {
    return a.unaryExpr([&factor](const T& value) { return T(factor * value); });
}
template <class T>
[[nodiscard]] Matrix<T> plus(const Matrix<T>& a, const Matrix<T>& b) {
    return a.binaryExpr(b, [](const T& x, const T& y) { return T(x + y); });
}
template <class T>
[[nodiscard]] Matrix<T> minus(const Matrix<T>& a, const Matrix<T>& b) {
    return a.binaryExpr(b, [](const T& x, const T& y) { return T(x - y); });
}

/// (S + S^T)/2.
template <class T>
[[nodiscard]] Matrix<T> sym(const Matrix<T>& s) {
    return scaled(T(0.5), plus(s, transposed(s)));
}

} // namespace truestep::reference::mapl
