#pragma once

#include <Eigen/Core>

#include <scape/verify/bounded.hpp>

/// For vectors of BoundedIn. Apart, so that whoever links the comparator needs no Eigen.
template <class Format>
struct Eigen::NumTraits<scape::verify::BoundedIn<Format>> : Eigen::NumTraits<double> {
    using Real = scape::verify::BoundedIn<Format>;
    using NonInteger = scape::verify::BoundedIn<Format>;
    using Nested = scape::verify::BoundedIn<Format>;
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
