#pragma once

#include <Eigen/Core>

#include <truestep/verify/bounded.hpp>

/// Makes vectors of BoundedIn possible. A separate header, so that the comparator alone needs no
/// Eigen.
template <class Format>
struct Eigen::NumTraits<truestep::verify::BoundedIn<Format>> : Eigen::NumTraits<double> {
    using Real = truestep::verify::BoundedIn<Format>;
    using NonInteger = truestep::verify::BoundedIn<Format>;
    using Nested = truestep::verify::BoundedIn<Format>;
    // NOLINTBEGIN(readability-identifier-naming): Eigen's names
    enum {
        IsComplex = 0,
        IsInteger = 0,
        IsSigned = 1,
        RequireInitialization = 1,
        ReadCost = 4,
        AddCost = 8,
        MulCost = 16
    };
    // NOLINTEND(readability-identifier-naming)
};
