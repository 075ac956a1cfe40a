// The scalar that carries a rounding bound, for levels REL and BF16.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace truestep::verify {

/// The format in which a computation stores its numbers and rounds each result.
struct Fp32Format {
    static constexpr double roundoff = 0x1p-24;
    static constexpr double smallest = 0x1p-149; ///< the greatest error of a result that underflows
    static constexpr double longest_in_blocks = 64.0;

    static bool holds(double value) { return static_cast<double>(static_cast<float>(value)) == value; }
};

/// The upper half of fp32.
struct Bf16Format {
    static constexpr double roundoff = 0x1p-8;
    static constexpr double smallest = 0x1p-133;
    /// A sum over the model is made at least in fp32 and rounded once: one in bf16 stops growing at
    /// 256 terms.
    static constexpr double longest_in_blocks = 1.0;

    static bool holds(double value) {
        return Fp32Format::holds(value) &&
               (std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0xffffU) == 0;
    }
};

/// A double with a bound on how far a computation of the same quantity in a format may differ from
/// it: running error analysis. With this scalar the reference yields the expected values of level
/// REL (in fp32) or BF16 and their bounds in one pass, from one source.
///
/// Each product, quotient and root of the format's numbers adds one rounding to the errors of its
/// operands. A sum of n terms adds n-1 roundings of the sum of magnitudes, in any order, including
/// the ranks' order. (Only the norm is known to be summed in blocks: NormInBlocks.) A scalar that
/// is not a number of the format adds one rounding.
template <class Format>
class BoundedIn {
  public:
    static constexpr double roundoff = Format::roundoff;
    static constexpr double smallest = Format::smallest;
    static constexpr double longest_in_blocks = Format::longest_in_blocks;

    BoundedIn() = default;
    BoundedIn(double value) // NOLINT: as implicit as from a double to a float
        : value_(value), magnitude_(std::abs(value)),
          inherited_(Format::holds(value) ? 0.0 : rounding(std::abs(value))) {}
    BoundedIn(double value, double error)
        : value_(value), magnitude_(std::abs(value) + error), inherited_(error) {}

    [[nodiscard]] double value() const { return value_; }
    /// Infinite where no bound is known: after a division by a possible zero, and where a partial
    /// sum may overflow in the format although the total does not.
    [[nodiscard]] double error() const {
        if (std::isinf(inherited_) ||
            (terms_ > 1.0 && magnitude_ > greatest && std::abs(value_) <= greatest))
            return infinite;
        return inherited_ + roundoff * (terms_ - 1.0) * magnitude_;
    }
    /// The same for a sum made in blocks, which limits the number of additions that a term passes
    /// through.
    [[nodiscard]] BoundedIn in_blocks() const {
        BoundedIn result = *this;
        result.terms_ = std::min(terms_, longest_in_blocks + 1.0);
        return result;
    }
    explicit operator double() const { return value_; }

    friend BoundedIn operator+(const BoundedIn& a, const BoundedIn& b) {
        return sum(a, b, a.value_ + b.value_);
    }
    friend BoundedIn operator-(const BoundedIn& a, const BoundedIn& b) {
        return sum(a, b, a.value_ - b.value_);
    }

    friend BoundedIn operator*(const BoundedIn& a, const BoundedIn& b) {
        const double value = a.value_ * b.value_;
        if (std::isinf(a.error()) || std::isinf(b.error()))
            return {value, infinite};
        const double brought =
            std::abs(a.value_) * b.error() + std::abs(b.value_) * a.error() + a.error() * b.error();
        return {value,
                value == 0.0 && brought == 0.0 ? 0.0 : brought + rounding(std::abs(value) + brought)};
    }

    friend BoundedIn operator/(const BoundedIn& a, const BoundedIn& b) {
        const double value = a.value_ / b.value_;
        const double least = std::abs(b.value_) - b.error();
        if (!(least > 0.0) || std::isinf(a.error()))
            return {value, infinite};
        const double brought = (a.error() + std::abs(value) * b.error()) / least;
        return {value,
                value == 0.0 && brought == 0.0 ? 0.0 : brought + rounding(std::abs(value) + brought)};
    }

    friend BoundedIn sqrt(const BoundedIn& a) {
        const double value = std::sqrt(a.value_);
        if (std::isinf(a.error()))
            return {value, infinite};
        const double up = std::sqrt(a.value_ + a.error()) - value;
        const double down = value - std::sqrt(std::max(0.0, a.value_ - a.error()));
        const double brought = std::max(up, down);
        return {value, value == 0.0 && brought == 0.0 ? 0.0 : brought + rounding(value + brought)};
    }

    /// The score for a selection by magnitude, as of a double.
    friend std::uint64_t score(const BoundedIn& a) {
        return std::bit_cast<std::uint64_t>(a.value_) & 0x7fff'ffff'ffff'ffffU;
    }

    /// If the two are too close to distinguish, either may be the lesser.
    friend BoundedIn min(const BoundedIn& a, const BoundedIn& b) {
        const BoundedIn& lesser = b.value_ < a.value_ ? b : a;
        const bool clear = std::abs(a.value_ - b.value_) > a.error() + b.error();
        return {lesser.value_, clear ? lesser.error() : std::max(a.error(), b.error())};
    }

  private:
    static constexpr double infinite = std::numeric_limits<double>::infinity();
    /// Nearly that of bf16, too.
    static constexpr auto greatest = static_cast<double>(std::numeric_limits<float>::max());

    static double rounding(double magnitude) { return std::max(roundoff * magnitude, smallest); }

    /// The terms' roundings are counted when the sum is used, so their order does not matter.
    static BoundedIn sum(const BoundedIn& a, const BoundedIn& b, double value) {
        BoundedIn result;
        result.value_ = value;
        result.magnitude_ = a.magnitude_ + b.magnitude_;
        result.inherited_ = a.inherited_ + b.inherited_;
        result.terms_ = a.terms_ + b.terms_;
        return result;
    }

    double value_ = 0.0;
    double magnitude_ = 0.0; ///< of all terms of a sum together
    double inherited_ = 0.0; ///< the error of the terms
    double terms_ = 1.0;
};

using Bounded = BoundedIn<Fp32Format>;
using BoundedBf16 = BoundedIn<Bf16Format>;

} // namespace truestep::verify
