#pragma once

#include <cstdint>
#include <span>

#include <truestep/problem/mix64.hpp>

/// A vector in 64 bits, so that ranks can compare vectors without sending them.
namespace truestep::trace {

using problem::mix64;

/// H = the sum over i of mix64(bits of value i xor mix64(i)), modulo 2^64. `begin`
/// is the global index of the first value: the fingerprints of a vector's parts add up to its own, in any
/// order. Every bit counts, so -0 is not +0 and a NaN is its payload.
[[nodiscard]] std::uint64_t fingerprint(std::span<const float> values, std::uint64_t begin = 0);

/// The fingerprint of a mask: over its bytes, by the index of the byte.
[[nodiscard]] std::uint64_t fingerprint(std::span<const std::uint8_t> bytes, std::uint64_t begin = 0);

} // namespace truestep::trace
