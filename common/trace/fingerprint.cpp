// Computes a vector's fingerprint as a sum over its values, which may come in any order.
#include <truestep/trace/fingerprint.hpp>

#include <bit>

namespace truestep::trace {

namespace {

std::uint64_t bits(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

std::uint64_t bits(std::uint8_t value) {
    return value;
}

/// A sum, because it takes the parts in any order. The index enters each term, so that values
/// cannot change places unnoticed.
template <class Element>
std::uint64_t sum_of_terms(std::span<const Element> values, std::uint64_t begin) {
    std::uint64_t sum = 0;
    for (const Element value : values)
        sum += mix64(bits(value) ^ mix64(begin++));
    return sum;
}

} // namespace

std::uint64_t fingerprint(std::span<const float> values, std::uint64_t begin) {
    return sum_of_terms(values, begin);
}

std::uint64_t fingerprint(std::span<const std::uint8_t> bytes, std::uint64_t begin) {
    return sum_of_terms(bytes, begin);
}

} // namespace truestep::trace
