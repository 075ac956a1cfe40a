#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace scape::verify {

/// A double, and how far a computation of the same quantity in fp32 may lie from it: running error
/// analysis. The reference, run on this scalar, yields the yardstick of level REL and its bound in one
/// pass, from one source.
///
/// Each product, quotient and root of fp32 numbers adds one rounding to what its operands bring along. A
/// sum of n terms adds n-1 roundings of the sum of magnitudes, whatever its order: the ranks' in theirs,
/// too, however many there are. (Only of the norm is it known that it is made in blocks: NormInBlocks.) A
/// scalar that is no fp32 number adds one rounding.
class Bounded {
  public:
    static constexpr double roundoff = 0x1p-24;
    static constexpr double smallest = 0x1p-149; ///< a result that underflows may be off by that much
    static constexpr double longest_in_blocks = 64.0;

    Bounded() = default;
    Bounded(double value) // NOLINT: as implicit as from a double to a float
        : value_(value), magnitude_(std::abs(value)),
          inherited_(static_cast<double>(static_cast<float>(value)) == value ? 0.0
                                                                             : rounding(std::abs(value))) {}
    Bounded(double value, double error)
        : value_(value), magnitude_(std::abs(value) + error), inherited_(error) {}

    [[nodiscard]] double value() const { return value_; }
    /// Infinite where nothing can be said: behind a division by what may be zero.
    [[nodiscard]] double error() const {
        if (std::isinf(inherited_))
            return inherited_;
        return inherited_ + roundoff * (terms_ - 1.0) * magnitude_;
    }
    /// The same where a sum is made in blocks, so that no term goes through more additions than so many.
    [[nodiscard]] Bounded in_blocks() const {
        Bounded result = *this;
        result.terms_ = std::min(terms_, longest_in_blocks + 1.0);
        return result;
    }
    explicit operator double() const { return value_; }

    friend Bounded operator+(const Bounded& a, const Bounded& b) { return sum(a, b, a.value_ + b.value_); }
    friend Bounded operator-(const Bounded& a, const Bounded& b) { return sum(a, b, a.value_ - b.value_); }

    friend Bounded operator*(const Bounded& a, const Bounded& b) {
        const double value = a.value_ * b.value_;
        if (std::isinf(a.error()) || std::isinf(b.error()))
            return {value, infinite};
        const double brought =
            std::abs(a.value_) * b.error() + std::abs(b.value_) * a.error() + a.error() * b.error();
        return {value,
                value == 0.0 && brought == 0.0 ? 0.0 : brought + rounding(std::abs(value) + brought)};
    }

    friend Bounded operator/(const Bounded& a, const Bounded& b) {
        const double value = a.value_ / b.value_;
        const double least = std::abs(b.value_) - b.error();
        if (!(least > 0.0) || std::isinf(a.error()))
            return {value, infinite};
        const double brought = (a.error() + std::abs(value) * b.error()) / least;
        return {value,
                value == 0.0 && brought == 0.0 ? 0.0 : brought + rounding(std::abs(value) + brought)};
    }

    friend Bounded sqrt(const Bounded& a) {
        const double value = std::sqrt(a.value_);
        if (std::isinf(a.error()))
            return {value, infinite};
        const double up = std::sqrt(a.value_ + a.error()) - value;
        const double down = value - std::sqrt(std::max(0.0, a.value_ - a.error()));
        const double brought = std::max(up, down);
        return {value, value == 0.0 && brought == 0.0 ? 0.0 : brought + rounding(value + brought)};
    }

    /// Where the two are too close to tell, either may be the lesser.
    friend Bounded min(const Bounded& a, const Bounded& b) {
        const Bounded& lesser = b.value_ < a.value_ ? b : a;
        const bool clear = std::abs(a.value_ - b.value_) > a.error() + b.error();
        return {lesser.value_, clear ? lesser.error() : std::max(a.error(), b.error())};
    }

  private:
    static constexpr double infinite = std::numeric_limits<double>::infinity();

    static double rounding(double magnitude) { return std::max(roundoff * magnitude, smallest); }

    /// The terms' roundings are counted when the sum is used, so that their order does not matter.
    static Bounded sum(const Bounded& a, const Bounded& b, double value) {
        Bounded result;
        result.value_ = value;
        result.magnitude_ = a.magnitude_ + b.magnitude_;
        result.inherited_ = a.inherited_ + b.inherited_;
        result.terms_ = a.terms_ + b.terms_;
        return result;
    }

    double value_ = 0.0;
    double magnitude_ = 0.0; ///< of the terms of a sum, all together
    double inherited_ = 0.0; ///< the error of the terms
    double terms_ = 1.0;
};

} // namespace scape::verify
