#pragma once

#include <algorithm>
#include <vector>

#include <truestep/reference/mapl/boundary.hpp>
#include <truestep/reference/mapl/spel.hpp>
#include <truestep/reference/mapl/vector_quantization.hpp>
#include <truestep/verify/bounded.hpp>
#include <truestep/verify/bounded_in_eigen.hpp>

// How MAPL's values are judged where sums round (section 25).

/// If fp32 may have rounded to several bf16 numbers, any of them is right; otherwise only that one.
template <>
struct truestep::reference::mapl::Sent<truestep::verify::Bounded> {
    using Bounded = verify::Bounded;

    static Bounded bf16(const Bounded& value) {
        const double limit = 2.0 * value.error();
        const double nearest = nearest_bf16(value.value());
        const double below = nearest_bf16(value.value() - limit);
        const double above = nearest_bf16(value.value() + limit);
        return {nearest, std::max(nearest - below, above - nearest)};
    }
};

namespace truestep::verify::mapl {

using namespace problem::mapl;
using namespace reference::mapl;
using problem::mapl::Settings; // verify has one, too

/// A matrix from its rows, of any scalar.
template <class T>
[[nodiscard]] Matrix<T> rows_of(const std::vector<float>& values, Index columns) {
    const Index rows = columns == 0 ? 0 : static_cast<Index>(values.size()) / columns;
    Matrix<T> made(rows, columns);
    for (Index i = 0; i < made.size(); ++i)
        made.data()[i] = static_cast<T>(static_cast<double>(values[static_cast<std::size_t>(i)]));
    return made;
}

/// The expected result of a step of SPEL from a recorded m and A, by its iterations in double, and
/// how far rounding may move it (section 25).
struct Judgement {
    struct Distance {
        double off = 0.0;
        double limit = 0.0;
    };
    Matrix<double> a;
    Eigen::MatrixXd directions; ///< right singular vectors of what d is the polar factor of, in columns
    Eigen::ArrayXd limits;      ///< of (A - a) times each of them
    double limit = 0.0;         ///< of A - a, in the Frobenius norm

    /// The distance in the direction that takes the greatest share of its limit.
    [[nodiscard]] Distance greatest(const Matrix<double>& actual) const;
};
/// `behind` is the size of the values that made m, if their rounding is also to be allowed for.
[[nodiscard]] Judgement next_subspace(const Settings& settings, const std::vector<float>& a,
                                      const std::vector<float>& m, double rate, double behind = 0.0);

/// Whether no codeword of the book is nearer, and no earlier one equally near. For Bounded: whether
/// it may be the nearest within rounding.
[[nodiscard]] bool is_nearest(const Quantizer<float>::Row& v, const Matrix<float>& book, Index word);
[[nodiscard]] bool is_nearest(const Quantizer<Bounded>::Row& v, const Matrix<Bounded>& book, Index word);

/// The greatest singular value.
[[nodiscard]] double spectral_norm(const Matrix<double>& of);

/// The greatest distance of A^T A from I after a step, if it was `before` at its begin.
[[nodiscard]] double manifold_limit(const Settings& settings, double rate, double before = 0.0);

} // namespace truestep::verify::mapl
