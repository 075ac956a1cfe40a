#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include <truestep/verify/bounded_in_eigen.hpp>
#include <truestep/verify/comparator.hpp>
#include <truestep/verify/verdict.hpp>

/// How a recorded vector is held against a reference's: to the bit at EXACT (float), within a bound at REL
/// (Bounded) and BF16 (BoundedBf16). Apart, so that whoever links the comparator needs no Eigen.
namespace truestep::verify {

template <class T>
using Values = Eigen::Array<T, Eigen::Dynamic, 1>;

template <class T>
Values<T> to_vector(const std::vector<float>& values) {
    Values<T> result(static_cast<Index>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (std::is_same_v<T, float>)
            result[static_cast<Index>(i)] = values[i];
        else
            result[static_cast<Index>(i)] = T(static_cast<double>(values[i]));
    }
    return result;
}

[[nodiscard]] inline Comparison compare_with(const Values<float>& expected,
                                             const std::vector<float>& actual) {
    return compare({expected.data(), static_cast<std::size_t>(expected.size())}, actual, Level::exact());
}

template <class Format>
[[nodiscard]] Comparison compare_with(const Values<BoundedIn<Format>>& expected,
                                      const std::vector<float>& actual) {
    std::vector<double> centres;
    std::vector<double> limits;
    for (Index i = 0; i < expected.size(); ++i) {
        centres.push_back(expected[i].value());
        limits.push_back(rel_slack * expected[i].error());
    }
    return compare(centres, limits, actual);
}

} // namespace truestep::verify
