// Muon's orthogonalization (section 37), over any scalar.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include <truestep/problem/dense/settings.hpp>
#include <truestep/reference/bf16.hpp>
#include <truestep/reference/mapl/spel.hpp>

namespace truestep::reference::dense {

using namespace problem::dense;
using mapl::Matrix;
using mapl::Quintic;

/// The polynomial a x + b x^3 + c x^5 of iteration t = 0, 1, ...
[[nodiscard]] inline Quintic quintic(const Group& group, int t) {
    return group.orthogonalization == Orthogonalization::newton_schulz ? group.coefficients
                                                                       : mapl::polar_express(t);
}

/// What a matrix of this Frobenius norm is divided by before the first iteration.
[[nodiscard]] inline double first_scale(const Group& group, double norm) {
    return group.orthogonalization == Orthogonalization::newton_schulz ? std::max(norm, group.epsilon)
                                                                       : 1.01 * norm + group.epsilon;
}

/// The matrix as the iteration keeps it: rounded to bf16 where the setting says so. Scalars that
/// are no fp32 numbers stay as they are.
template <class T>
[[nodiscard]] Matrix<T> kept(Iteration iteration, const Matrix<T>& X) {
    if constexpr (std::is_same_v<T, float>)
        if (iteration == Iteration::bf16)
            return X.unaryExpr([](float x) { return static_cast<float>(Bf16(static_cast<double>(x))); });
    return X;
}

/// X := a X + (b G + c G^2) X with G = X X^T, in this order.
template <class T>
[[nodiscard]] Matrix<T> iterated(const Group& group, int t, const Matrix<T>& X) {
    const auto& [a, b, c] = quintic(group, t);
    const Matrix<T> G = kept(group.iteration, mapl::times(X, mapl::transposed(X)));
    const Matrix<T> U =
        kept(group.iteration, mapl::plus(mapl::scaled(T(b), G), mapl::scaled(T(c), mapl::times(G, G))));
    return kept(group.iteration, mapl::plus(mapl::scaled(T(a), X), mapl::times(U, X)));
}

/// O of section 37 from U. A scalar that carries a bound specializes this, because the products'
/// running bounds would say nothing.
template <class T>
struct Orthogonalizer {
    [[nodiscard]] static Matrix<T> of(const Group& group, const Matrix<T>& U) {
        if (U.rows() > U.cols())
            return mapl::transposed(of(group, mapl::transposed(U)));
        const Matrix<T> first = kept(group.iteration, U);
        double squares = 0.0;
        for (Index i = 0; i < first.size(); ++i)
            squares += static_cast<double>(first.data()[i]) * static_cast<double>(first.data()[i]);
        double scale = first_scale(group, std::sqrt(squares));
        if constexpr (std::is_same_v<T, float>)
            if (group.iteration == Iteration::bf16)
                scale = nearest_bf16(scale);
        Matrix<T> X = kept(group.iteration, Matrix<T>(first.unaryExpr([scale](const T& entry) {
                               return static_cast<T>(static_cast<double>(entry) / scale);
                           })));
        for (int t = 0; t < group.iterations; ++t)
            X = iterated(group, t, X);
        return X;
    }
};

} // namespace truestep::reference::dense
