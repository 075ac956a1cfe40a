// Comparing vectors and masks at a level, value by value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/verify/level.hpp>

namespace truestep::verify {

using problem::Index;

/// The number of steps between the floats a and b: 0 for the same bits, 1 for -0 and +0, which are
/// neighbours. Infinite for a NaN or an infinity, except with its own bits.
[[nodiscard]] double ulp_distance(float a, float b);

/// |a - b| in double; infinite for a NaN or an infinity, except with its own kind.
[[nodiscard]] double difference(double a, double b);

/// A value and its expected value.
struct Pair {
    Index index = 0;
    float expected = 0.0F;
    float actual = 0.0F;
    double ulps = 0.0;       ///< distance in units in the last place
    double difference = 0.0; ///< distance in value
    double limit = 0.0;      ///< the limit of the distance: in ULPs, or in value under REL
    bool ok = false;         ///< distance <= limit, so that a NaN fails
};

/// How many wrong values are the expected ones times a factor, or divided by it (scale_matches.hpp).
struct ScaleMatches {
    Index times = 0;
    Index divided = 0;
};

/// The result of comparing two vectors.
struct Comparison {
    static constexpr std::size_t shown_before = 3; ///< good values shown before the first bad one
    static constexpr std::size_t shown_each_end = 5;

    Index expected_size = 0;
    Index actual_size = 0;
    Index compared = 0;
    Index mismatched = 0;
    Index unbounded = 0; ///< values with an infinite limit, which nothing could exceed: not compared
    Index nonzero = 0;   ///< of the expected values that were compared
    std::optional<Pair> greatest; ///< the greatest difference in value; none if all bits agree
    double greatest_ulps = 0.0;
    double share_of_limit = 0.0; ///< the worst distance / limit among those that passed
    std::vector<Pair> before;    ///< the good ones just before the first bad one
    std::vector<Pair> first;     ///< the first bad ones
    std::vector<Pair> last;      ///< the last bad ones that are not among the first
    std::vector<bool> wrong;     ///< a bit for each value up to the last bad one
    ScaleMatches scaled;         ///< of the bad ones, if requested

    [[nodiscard]] bool ok() const { return mismatched == 0 && expected_size == actual_size; }
    /// The first wrong index; none for fingerprints, which have no index.
    [[nodiscard]] std::optional<Index> first_wrong() const {
        return first.empty() ? std::nullopt : std::optional(first.front().index);
    }
};

/// Compares bits, at EXACT, RERUN or ULP. (REL and BF16 need the bounds of the other form and are
/// refused here.)
[[nodiscard]] Comparison compare(std::span<const float> expected, std::span<const float> actual,
                                 const Level& level);

/// Compares with values in double, each with its own limit, at REL or BF16.
[[nodiscard]] Comparison compare(std::span<const double> expected, std::span<const double> limits,
                                 std::span<const float> actual);

/// Compares masks, as bits in bytes of eight coordinates; `size` is the number of coordinates. Bits
/// beyond the last coordinate must be 0 and are compared too. If `allowed` is given, the
/// coordinates that it marks may differ.
[[nodiscard]] Comparison compare_masks(std::span<const std::uint8_t> expected,
                                       std::span<const std::uint8_t> actual, Index size,
                                       std::span<const std::uint8_t> allowed = {});

/// Text such as "3 of 120 values differ (2.5 %)".
[[nodiscard]] std::string summary(const Comparison& comparison);

/// The values around the mismatch, on several lines that begin with `indent`. `layout` names the
/// tensors.
[[nodiscard]] std::string details(const Comparison& comparison, const problem::Layout& layout,
                                  const std::string& indent);

/// Text such as "-0.5 (0xbf000000)".
[[nodiscard]] std::string with_bits(float value);

/// The share of compared values that must be non-zero, so that passing proves something.
constexpr double least_nonzero_share = 0.05;

/// The verdict over `compared` values, if `nonzero` of the `eligible` ones (those that are not zero
/// by rule) were not zero.
[[nodiscard]] Status verdict(Index compared, Index mismatched, Index nonzero, Index eligible);

} // namespace truestep::verify
