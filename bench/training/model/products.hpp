#pragma once

// All matrix products, through three functions. Each is instantiated once for an instruction set,
// since this dominates compile time.

#include <Eigen/Core>

#include "places.hpp"

namespace truestep::training {
namespace {

/// A matrix of rows of `columns` values, `stride` apart.
template <class Scalar>
struct MatrixView {
    Scalar* values;
    Count rows;
    Count columns;
    Count stride;

    [[nodiscard]] MatrixView<const Scalar> constant() const { return {values, rows, columns, stride}; }
    [[nodiscard]] MatrixView upto(Count count) const { return {values, count, columns, stride}; }
    [[nodiscard]] MatrixView from(Count begin, Count count) const {
        return {values + begin * stride, count, columns, stride};
    }
};

template <class Scalar>
MatrixView<Scalar> matrix(Scalar* values, Count rows, Count columns) {
    return {values, rows, columns, columns};
}

/// Whether a product is added to the old values.
enum class Keep : bool { no, yes };

template <class Scalar>
using Strided = Eigen::Map<Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                           Eigen::OuterStride<>>;
template <class Scalar>
using ConstStrided =
    Eigen::Map<const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
               Eigen::OuterStride<>>;

template <class Scalar>
Strided<Scalar> mapped(const MatrixView<Scalar>& view) {
    return {view.values, view.rows, view.columns, Eigen::OuterStride<>(view.stride)};
}
template <class Scalar>
ConstStrided<Scalar> mapped(const MatrixView<const Scalar>& view) {
    return {view.values, view.rows, view.columns, Eigen::OuterStride<>(view.stride)};
}

template <class Scalar, class Product>
void into(const MatrixView<Scalar>& to, Keep keep, Scalar factor, const Product& product) {
    auto result = mapped(to);
    if (keep == Keep::no)
        result.setZero();
    result.noalias() += factor * product;
}

/// to = factor * first second, plus the old values if kept.
template <class Scalar>
[[gnu::noinline]] void multiply(const MatrixView<Scalar>& to, const MatrixView<const Scalar>& first,
                                const MatrixView<const Scalar>& second, Keep keep = Keep::no,
                                Scalar factor = Scalar(1)) {
    into(to, keep, factor, mapped(first) * mapped(second));
}

/// The same with the transpose of the second.
template <class Scalar>
[[gnu::noinline]] void multiply_across(const MatrixView<Scalar>& to, const MatrixView<const Scalar>& first,
                                       const MatrixView<const Scalar>& second, Keep keep = Keep::no,
                                       Scalar factor = Scalar(1)) {
    into(to, keep, factor, mapped(first) * mapped(second).transpose());
}

/// The same with the transpose of the first.
template <class Scalar>
[[gnu::noinline]] void multiply_along(const MatrixView<Scalar>& to, const MatrixView<const Scalar>& first,
                                      const MatrixView<const Scalar>& second, Keep keep = Keep::no,
                                      Scalar factor = Scalar(1)) {
    into(to, keep, factor, mapped(first).transpose() * mapped(second));
}

} // namespace
} // namespace truestep::training
