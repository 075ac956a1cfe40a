#pragma once

// All matrix products, through three functions. Each is instantiated once for an instruction set,
// since this dominates compile time.

#include <Eigen/Core>

#include "places.hpp"

namespace truestep::training {
namespace {

/// A matrix of rows of `columns` values, `stride` apart.
template <class Scalar>
struct View {
    Scalar* values;
    Count rows;
    Count columns;
    Count stride;

    [[nodiscard]] View<const Scalar> constant() const { return {values, rows, columns, stride}; }
    [[nodiscard]] View upto(Count count) const { return {values, count, columns, stride}; }
    [[nodiscard]] View from(Count begin, Count count) const {
        return {values + begin * stride, count, columns, stride};
    }
};

template <class Scalar>
View<Scalar> matrix(Scalar* values, Count rows, Count columns) {
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
Strided<Scalar> mapped(const View<Scalar>& view) {
    return {view.values, view.rows, view.columns, Eigen::OuterStride<>(view.stride)};
}
template <class Scalar>
ConstStrided<Scalar> mapped(const View<const Scalar>& view) {
    return {view.values, view.rows, view.columns, Eigen::OuterStride<>(view.stride)};
}

template <class Scalar, class Product>
void into(const View<Scalar>& to, Keep keep, Scalar factor, const Product& product) {
    auto result = mapped(to);
    if (keep == Keep::no)
        result.setZero();
    result.noalias() += factor * product;
}

/// to = factor * first second, plus the old values if kept.
template <class Scalar>
[[gnu::noinline]] void multiply(const View<Scalar>& to, const View<const Scalar>& first,
                                const View<const Scalar>& second, Keep keep = Keep::no,
                                Scalar factor = Scalar(1)) {
    into(to, keep, factor, mapped(first) * mapped(second));
}

/// The same with the transpose of the second.
template <class Scalar>
[[gnu::noinline]] void multiply_across(const View<Scalar>& to, const View<const Scalar>& first,
                                       const View<const Scalar>& second, Keep keep = Keep::no,
                                       Scalar factor = Scalar(1)) {
    into(to, keep, factor, mapped(first) * mapped(second).transpose());
}

/// The same with the transpose of the first.
template <class Scalar>
[[gnu::noinline]] void multiply_along(const View<Scalar>& to, const View<const Scalar>& first,
                                      const View<const Scalar>& second, Keep keep = Keep::no,
                                      Scalar factor = Scalar(1)) {
    into(to, keep, factor, mapped(first).transpose() * mapped(second));
}

} // namespace
} // namespace truestep::training
