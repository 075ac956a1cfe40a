#pragma once

#include <cstdint>

#include <scape/reference/scape.hpp>
#include <scape/verify/bounded_in_eigen.hpp>

/// What the reference of SCAPE asks of the scalar of level REL beyond arithmetic.
namespace scape::verify {

/// For the selection.
inline std::uint64_t score(const Bounded& a) {
    return reference::score(a.value());
}

/// For the norm, whose sum section 5 makes in blocks: its bound does not grow with the model.
class NormInBlocks {
  public:
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

} // namespace scape::verify

namespace scape::reference {

/// An implementation may take the norm in fp32; the bound covers that.
template <>
struct Bf16<verify::Bounded> {
    /// Rounding never turns two values round, so whoever is within the limit, which is twice the error, is
    /// between what its ends round to. Most often both are the same, and nothing is left of the error.
    static verify::Bounded nearest(const verify::Bounded& c) {
        const double value = nearest_bf16(c.value());
        const double limit = 2.0 * c.error();
        if (!std::isfinite(limit))
            return {value, limit};
        return {value,
                std::max(nearest_bf16(c.value() + limit) - value, value - nearest_bf16(c.value() - limit))};
    }
};

template <>
struct ClipReal<verify::Bounded> {
    using type = verify::NormInBlocks;
};

} // namespace scape::reference
