#pragma once

#include <Eigen/Core>

#include <scape/verify/bounded.hpp>

/// For vectors of Bounded. Apart, so that whoever links the comparator needs no Eigen.
template <>
struct Eigen::NumTraits<scape::verify::Bounded> : Eigen::NumTraits<double> {
    using Real = scape::verify::Bounded;
    using NonInteger = scape::verify::Bounded;
    using Nested = scape::verify::Bounded;
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
