#pragma once

#include <cmath>

#include <gtest/gtest.h>

#include <truestep/verify/bounded.hpp>

namespace truestep::verify::scape {

inline double widened(float value) {
    return static_cast<double>(value);
}

/// The distance of the fp32 result from the double one, as a share of the bound.
inline double share(const Bounded& bound, float value) {
    const double distance = std::abs(bound.value() - widened(value));
    return distance == 0.0 ? 0.0 : distance / bound.error();
}

inline testing::AssertionResult within(const Bounded& bound, float value) {
    if (std::abs(bound.value() - widened(value)) <= bound.error())
        return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << value << " is farther from " << bound.value() << " than " << bound.error();
}

} // namespace truestep::verify::scape
