#pragma once

#include <vector>

#include <Eigen/Core>

#include <truestep/problem/layout.hpp>

// Eigen's fast sqrt is an approximation with a Newton step, and flushes subnormals to zero: section
// 5 requires the IEEE root. The build turns it off for everything that includes the reference; any
// other build stops here.
#if !defined(EIGEN_FAST_MATH) || EIGEN_FAST_MATH != 0
#error "compile the reference with EIGEN_FAST_MATH=0 (link the CMake target scape_reference)"
#endif
#if defined(__FAST_MATH__)
#error "compile the reference without -ffast-math: section 5 fixes every rounding"
#endif

namespace truestep::reference {

using problem::Index;

/// A flat vector of scalars, with arithmetic by element. T is float for the normative arithmetic of
/// section 5, and double for an independent measure.
template <class T>
using Vector = Eigen::Array<T, Eigen::Dynamic, 1>;

/// One vector per rank.
template <class T>
using PerRank = std::vector<Vector<T>>;

/// Coordinates in ascending order: a mask S. `x(S)` is x packed on S.
using Coordinates = std::vector<Index>;

} // namespace truestep::reference
