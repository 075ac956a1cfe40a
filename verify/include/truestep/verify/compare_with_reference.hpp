#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include <truestep/verify/bounded_in_eigen.hpp>
#include <truestep/verify/comparator.hpp>
#include <truestep/verify/verdict.hpp>

/// Compares a recorded vector with a reference's: bit for bit at EXACT (float), within a bound at
/// REL (Bounded) and BF16 (BoundedBf16). A separate header, so that the comparator alone needs no
/// Eigen.
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

/// The expected values in double, and below how far each may differ: at EXACT not at all.
template <class T>
[[nodiscard]] std::vector<double> centres_of(const Values<T>& values) {
    std::vector<double> centres;
    for (const T& value : values)
        if constexpr (std::is_same_v<T, float>)
            centres.push_back(static_cast<double>(value));
        else
            centres.push_back(value.value());
    return centres;
}
template <class T>
[[nodiscard]] std::vector<double> limits_of(const Values<T>& values) {
    std::vector<double> limits;
    for (const T& value : values)
        if constexpr (std::is_same_v<T, float>)
            limits.push_back(0.0);
        else
            limits.push_back(rel_slack * value.error());
    return limits;
}

template <class Format>
[[nodiscard]] Comparison compare_with(const Values<BoundedIn<Format>>& expected,
                                      const std::vector<float>& actual) {
    return compare(centres_of(expected), limits_of(expected), actual);
}

} // namespace truestep::verify
