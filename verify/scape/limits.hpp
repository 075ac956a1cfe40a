#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <truestep/verify/beside.hpp>
#include <truestep/verify/comparator.hpp>
#include <truestep/verify/verify_trace.hpp>
#include <truestep/verify/yardstick.hpp>

/// How a recorded vector is held against the reference's: to the bit at EXACT (float), within a bound at
/// REL (Bounded) and BF16 (BoundedBf16).
namespace truestep::verify {

using Bits = std::vector<std::uint8_t>;

/// The coordinates at which a recorded mask may differ from the reference's, which was made from `c`. At
/// EXACT none.
[[nodiscard]] Bits tolerable_bits(const problem::Problem& problem, const PerRank<float>& c, double density,
                                  const Bits& recorded);
/// At the others the scores c carry an error, and a segment's mask may be any that is a right choice of its
/// k for some scores within that error: none that was left out is for certain greater than one that was
/// taken.
template <class Format>
[[nodiscard]] Bits tolerable_bits(const problem::Problem& problem, const PerRank<BoundedIn<Format>>& c,
                                  double density, const Bits& recorded);

} // namespace truestep::verify
