#pragma once

#include <scape/mapl/spel.hpp>

#include "trial.hpp"

namespace scape::mapl {

/// Where a step of SPEL goes from a recorded m and A, by singular values in double, and how far from there
/// it may be in the norm of Frobenius: section 25.
struct Judgement {
    Matrix<double> a;
    double limit = 0.0;
};
/// `behind` is the size of what m was made from, where the rounding of that is to be allowed for, too.
[[nodiscard]] Judgement next_subspace(const Settings& settings, const Floats& a, const Floats& m,
                                      double rate, double behind = 0.0);

/// Greatest singular value.
[[nodiscard]] double spectral_norm(const Matrix<double>& of);

/// How far A^T A may be from I after a step.
[[nodiscard]] double manifold_limit(const Settings& settings, double rate);

} // namespace scape::mapl
