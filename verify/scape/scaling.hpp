#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include <truestep/verify/beside.hpp>
#include <truestep/verify/scaled.hpp>

/// Wrong results as a multiple of what the reference has, at each level.
namespace truestep::verify {

template <class T>
[[nodiscard]] std::vector<double> centres_of(const Values<T>& values) {
    std::vector<double> centres;
    for (Index i = 0; i < values.size(); ++i)
        if constexpr (std::is_same_v<T, float>)
            centres.push_back(static_cast<double>(values[i]));
        else
            centres.push_back(values[i].value());
    return centres;
}

template <class T>
[[nodiscard]] std::vector<double> limits_of(const Values<T>& values) {
    std::vector<double> limits(static_cast<std::size_t>(values.size()), 0.0);
    if constexpr (!std::is_same_v<T, float>)
        for (std::size_t i = 0; i < limits.size(); ++i)
            limits[i] = rel_slack * values[static_cast<Index>(i)].error();
    return limits;
}

template <class T>
[[nodiscard]] Scaled values_scaled(int factor, const Values<T>& expected, const std::vector<float>& actual,
                                   const std::vector<bool>& wrong) {
    if constexpr (std::is_same_v<T, float>)
        return scaled_by(factor,
                         std::span<const float>(expected.data(), static_cast<std::size_t>(expected.size())),
                         actual, wrong);
    else
        return scaled_by(factor, centres_of<T>(expected), limits_of<T>(expected), actual, wrong);
}

template <class T>
[[nodiscard]] Scaled steps_scaled(int factor, const Values<T>& before, const Values<T>& expected,
                                  const std::vector<float>& actual, const std::vector<bool>& wrong) {
    return steps_scaled_by(factor, centres_of<T>(before), centres_of<T>(expected), limits_of<T>(expected),
                           actual, wrong);
}

} // namespace truestep::verify
