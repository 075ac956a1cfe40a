#pragma once

#include <type_traits>

#include <truestep/verify/run.hpp>
#include <truestep/verify/yardstick.hpp>

/// The norm of a mean gradient, where it is not the reference that takes it.
namespace truestep::verify {

/// In double and in no particular order: to look at, not to compare.
template <class T>
[[nodiscard]] double squares_in_double(const Vector<T>& values) {
    double squares = 0.0;
    for (Index i = 0; i < values.size(); ++i) {
        const auto value = static_cast<double>(values[i]);
        squares += value * value;
    }
    return squares;
}

/// As a trace says that it was. Whoever clips in fp32, or in bf16, has rounded it once more.
template <class T>
[[nodiscard]] typename Run<T>::Norm norm_as_recorded(double norm) {
    if constexpr (std::is_same_v<T, float>)
        return norm;
    else
        return typename Run<T>::Norm(T(norm, norm * T::roundoff));
}

} // namespace truestep::verify
