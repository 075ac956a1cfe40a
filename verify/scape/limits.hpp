#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <scape/verify/comparator.hpp>
#include <scape/verify/verify_trace.hpp>
#include <scape/verify/yardstick.hpp>

/// How a recorded vector is held against the reference's: to the bit at EXACT (float), within a bound at
/// REL (Bounded).
namespace scape::verify {

using Bits = std::vector<std::uint8_t>;

template <class T>
Vector<T> to_vector(const std::vector<float>& values) {
    Vector<T> result(static_cast<Index>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (std::is_same_v<T, float>)
            result[static_cast<Index>(i)] = values[i];
        else
            result[static_cast<Index>(i)] = T(static_cast<double>(values[i]));
    }
    return result;
}

[[nodiscard]] Comparison compare_with(const Vector<float>& expected, const std::vector<float>& actual);
[[nodiscard]] Comparison compare_with(const Vector<Bounded>& expected, const std::vector<float>& actual);

/// The coordinates at which a recorded mask may differ from the reference's, which was made from `c`. At
/// EXACT none.
[[nodiscard]] Bits tolerable_bits(const problem::Problem& problem, const PerRank<float>& c, double density,
                                  const Bits& recorded);
/// At REL the scores c carry an error, and a segment's mask may be any that is a right choice of its k for
/// some scores within that error: none that was left out is for certain greater than one that was taken.
[[nodiscard]] Bits tolerable_bits(const problem::Problem& problem, const PerRank<Bounded>& c,
                                  double density, const Bits& recorded);

} // namespace scape::verify
