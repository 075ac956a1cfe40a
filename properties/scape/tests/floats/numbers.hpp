// Floats by their bits, and random ones.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::properties::scape::floats {

using problem::Index;
using Bits = std::uint32_t;

inline float number(Bits bits) {
    return std::bit_cast<float>(bits);
}

/// The float with this sign (0 or 1), biased exponent (0 to 255) and mantissa.
inline float number(Bits sign, Bits exponent, Bits mantissa) {
    return number(sign << 31U | exponent << 23U | (mantissa & 0x7f'ffffU));
}

/// Splitmix64: a draw is a few instructions, and any seed does.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t bits() {
        state_ += 0x9e37'79b9'7f4a'7c15U;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
        z = (z ^ (z >> 27U)) * 0x94d0'49bb'1331'11ebU;
        return z ^ (z >> 31U);
    }
    /// In [0, 1).
    double unit() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }
    std::uint64_t below(std::uint64_t limit) { return (bits() >> 32U) * limit >> 32U; }
    template <class T, std::size_t size>
    T of(const std::array<T, size>& values) {
        return values[static_cast<std::size_t>(below(size))];
    }
    /// Any finite float; all exponents are equally likely.
    float finite() {
        const std::uint64_t drawn = bits();
        return number(static_cast<Bits>(drawn >> 63U), static_cast<Bits>(below(255)),
                      static_cast<Bits>(drawn));
    }

  private:
    std::uint64_t state_;
};

/// Values at which a rounding, a comparison or an exponent changes, with both signs.
inline std::vector<float> special_values() {
    std::vector<float> result;
    for (const Bits magnitude :
         {0x0000'0000U, 0x0000'0001U, 0x0000'0002U, 0x0040'0000U, 0x007f'ffffU, 0x0080'0000U, 0x0080'0001U,
          0x00ff'ffffU, 0x0100'0000U, 0x1fff'ffffU, 0x2000'0000U, 0x3f7f'ffffU, 0x3f80'0000U, 0x3f80'0001U,
          0x3f00'0000U, 0x4b7f'ffffU, 0x4b80'0000U, 0x5b7f'ffffU, 0x5b80'0000U, 0x5b80'0001U, 0x5f80'0000U,
          0x7f00'0000U, 0x7f7f'ffffU, 0x7f80'0000U, 0x7f80'0001U, 0x7fc0'0000U}) {
        result.push_back(number(magnitude));
        result.push_back(number(magnitude | 0x8000'0000U));
    }
    return result;
}

} // namespace truestep::properties::scape::floats
