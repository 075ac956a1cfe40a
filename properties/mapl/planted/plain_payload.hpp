#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <truestep/problem/error.hpp>

#include "plain.hpp"

// Payloads of Z and dZ for the plain ends, by integers in units of the last place.
namespace truestep::properties::mapl::plain {

using Message = std::vector<std::uint8_t>;

inline void append(Message& to, const std::vector<float>& values) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(values.data());
    to.insert(to.end(), begin, begin + values.size() * sizeof(float));
}

/// 8 significant bits.
inline float rounded_to_bf16(Wrong wrong, float value) {
    if (value == 0.0F || !std::isfinite(value))
        return value;
    int exponent = 0;
    static_cast<void>(std::frexp(value, &exponent));
    const int last = exponent - 8 < -133 ? -133 : exponent - 8;
    const double steps = std::ldexp(static_cast<double>(value), -last);
    double whole = std::nearbyint(steps); // ties to even
    if (wrong == payload_cut_off)
        whole = std::trunc(steps);
    if (wrong == payload_ties_away)
        whole = std::round(steps);
    return static_cast<float>(std::ldexp(whole, last));
}

/// A message with 2 bytes per value.
inline Message in_two_bytes(Wrong wrong, const std::vector<float>& values) {
    Message message;
    for (const float value : values) {
        const float rounded = rounded_to_bf16(wrong, value);
        if (!std::isfinite(rounded))
            throw Error("a value is too large for bf16; nothing was sent");
        const auto bits = std::bit_cast<std::uint32_t>(rounded);
        message.push_back(static_cast<std::uint8_t>(bits >> 16U));
        message.push_back(static_cast<std::uint8_t>(bits >> 24U));
    }
    return message;
}

inline std::vector<float> of_two_bytes(const Message& message, std::size_t count) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i)
        values.push_back(std::bit_cast<float>((static_cast<std::uint32_t>(message[2 * i]) << 16U) |
                                              (static_cast<std::uint32_t>(message[2 * i + 1]) << 24U)));
    return values;
}

} // namespace truestep::properties::mapl::plain
