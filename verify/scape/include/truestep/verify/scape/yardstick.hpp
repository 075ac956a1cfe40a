#pragma once

#include <truestep/reference/scape/scape.hpp>
#include <truestep/verify/bounded_in_eigen.hpp>

/// The operations that the reference of SCAPE needs of the scalars of REL and BF16 beyond
/// arithmetic.
namespace truestep::verify::scape {

/// The scalar of the norm, whose sum section 5 makes in blocks: its bound does not grow with the
/// model.
template <class Format>
class NormInBlocks {
  public:
    using Bounded = BoundedIn<Format>;

    NormInBlocks() = default;
    explicit NormInBlocks(double value) : bounded_(value) {}
    explicit NormInBlocks(const Bounded& value) : bounded_(value) {}
    explicit operator Bounded() const { return bounded_; }

    friend NormInBlocks operator+(const NormInBlocks& a, const NormInBlocks& b) {
        return NormInBlocks((a.bounded_ + b.bounded_).in_blocks());
    }
    friend NormInBlocks operator*(const NormInBlocks& a, const NormInBlocks& b) {
        return NormInBlocks(a.bounded_ * b.bounded_);
    }
    friend NormInBlocks operator/(const NormInBlocks& a, const NormInBlocks& b) {
        return NormInBlocks(a.bounded_ / b.bounded_);
    }
    friend NormInBlocks sqrt(const NormInBlocks& a) { return NormInBlocks(sqrt(a.bounded_)); }
    friend NormInBlocks min(const NormInBlocks& a, const NormInBlocks& b) {
        return NormInBlocks(min(a.bounded_, b.bounded_));
    }

  private:
    Bounded bounded_;
};

} // namespace truestep::verify::scape

template <class Format>
struct truestep::reference::scape::Rounding<truestep::verify::BoundedIn<Format>> {
    using Bounded = verify::BoundedIn<Format>;

    /// If |c| may lie in two binades, a scale may be any of several; or |c| may have no exponent.
    struct Exponent {
        int of_value, least, most;
    };

    static Bounded bf16(const Bounded& c) { return rounded(c, nearest_bf16(c.value()), nearest_bf16); }
    static Bounded e5m2(const Bounded& c, const Exponent& E) {
        const double value = nearest_e5m2(c.value(), E.of_value);
        double error = 0.0;
        for (int other = E.least; other <= E.most; ++other)
            error = std::max(
                error, rounded(c, value, [other](double x) { return nearest_e5m2(x, other); }).error());
        return {value, error};
    }
    static Exponent exponent(const Bounded& c) {
        const double magnitude = std::abs(c.value());
        const double limit = 2.0 * c.error();
        return {exponent_of(magnitude), exponent_of(std::max(0.0, magnitude - limit)),
                exponent_of(magnitude + limit)};
    }
    static Exponent exactly(int E) { return {E, E, E}; }
    static Exponent greater(const Exponent& a, const Exponent& b) {
        return {std::max(a.of_value, b.of_value), std::max(a.least, b.least), std::max(a.most, b.most)};
    }
    static Exponent or_else(const Exponent& E, const Exponent& before) {
        if (E.most == no_exponent)
            return before;
        if (E.least > no_exponent)
            return E;
        // It may be the one before, or any from the least on.
        return {E.of_value == no_exponent ? before.of_value : E.of_value, lowest_exponent,
                std::max(before.most, E.most)};
    }

  private:
    /// Rounding is monotonic, so a value within the limit (twice the error) lies between the
    /// rounded ends of the interval. Most often both are the same, and no error remains.
    template <class Nearest>
    static Bounded rounded(const Bounded& c, double value, const Nearest& nearest) {
        const double limit = 2.0 * c.error();
        if (!std::isfinite(limit))
            return {value, limit};
        return {value, std::max(nearest(c.value() + limit) - value, value - nearest(c.value() - limit))};
    }
};

/// An implementation may compute the norm in fp32; the bound covers that.
template <class Format>
struct truestep::reference::scape::ClipReal<truestep::verify::BoundedIn<Format>> {
    using type = verify::scape::NormInBlocks<Format>;
};
