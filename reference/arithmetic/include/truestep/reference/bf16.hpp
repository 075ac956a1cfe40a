// A scalar that computes in bf16, for the reference of level BF16.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <Eigen/Core>

namespace truestep::reference {

/// The nearest number with 8 significant bits and the exponents of fp32; ties go to the even one.
/// Anything beyond the greatest becomes 2^128, which is not a number of bf16.
inline double nearest_bf16(double c) {
    if (c == 0.0 || !std::isfinite(c))
        return c;
    int exponent = 0; // |c| is in [2^(exponent-1), 2^exponent)
    static_cast<void>(std::frexp(c, &exponent));
    constexpr int significant_bits = 8;
    constexpr int least_exponent = -133; // of the last bit of a subnormal
    const double unit = std::ldexp(1.0, std::max(exponent - significant_bits, least_exponent));
    return std::nearbyint(c / unit) * unit;
}

/// A bf16 number whose operations round to the nearest, ties to even. The reference over it is the
/// plainest code that keeps and computes everything in bf16 (section 6). A double has more than
/// twice the digits of bf16, so rounding twice changes no product, quotient, root or sum.
class Bf16 {
  public:
    Bf16() = default;
    Bf16(double value) // NOLINT: as implicit as from a double to a float
        : value_(rounded(value)) {}

    explicit operator double() const { return static_cast<double>(value_); }
    explicit operator float() const { return value_; }

    friend Bf16 operator+(const Bf16& a, const Bf16& b) { return {a.wide() + b.wide()}; }
    friend Bf16 operator-(const Bf16& a, const Bf16& b) { return {a.wide() - b.wide()}; }
    friend Bf16 operator*(const Bf16& a, const Bf16& b) { return {a.wide() * b.wide()}; }
    friend Bf16 operator/(const Bf16& a, const Bf16& b) { return {a.wide() / b.wide()}; }
    friend Bf16 sqrt(const Bf16& a) { return {std::sqrt(a.wide())}; }

    /// The score for the selection, as in fp32 (section 5).
    friend std::uint64_t score(const Bf16& a) {
        return std::bit_cast<std::uint32_t>(a.value_) & 0x7fff'ffffU;
    }

  private:
    [[nodiscard]] double wide() const { return static_cast<double>(value_); }

    static float rounded(double value) {
        constexpr float infinite = std::numeric_limits<float>::infinity();
        const double nearest = nearest_bf16(value);
        if (std::abs(nearest) >= 0x1p128)
            return nearest < 0.0 ? -infinite : infinite;
        return static_cast<float>(nearest); // a NaN, too
    }

    float value_ = 0.0F;
};

} // namespace truestep::reference

template <>
struct Eigen::NumTraits<truestep::reference::Bf16> : Eigen::NumTraits<float> {
    using Real = truestep::reference::Bf16;
    using NonInteger = truestep::reference::Bf16;
    using Nested = truestep::reference::Bf16;
    // NOLINTBEGIN(readability-identifier-naming): Eigen's names
    enum {
        IsComplex = 0,
        IsInteger = 0,
        IsSigned = 1,
        RequireInitialization = 1,
        ReadCost = 1,
        AddCost = 8,
        MulCost = 8
    };
    // NOLINTEND(readability-identifier-naming)
};
