#pragma once

#include <truestep/distributed/element.hpp>
#include <truestep/problem/problem.hpp>

// Section 5 written a second time, over arithmetic that shares nothing with a processor's: every operation
// is made with 200 bits and then rounded once by MPFR.

namespace truestep::properties::scape::floats {

/// An fp32 number whose operations are MPFR's, rounded to nearest even, with subnormals. The 200 bits in
/// between change nothing: sums, products, quotients and roots of numbers of 24 bits are never that near to
/// the middle of two neighbours without being it.
struct Number {
    float value = 0.0F;
};
[[nodiscard]] Number operator+(Number a, Number b);
[[nodiscard]] Number operator-(Number a, Number b);
[[nodiscard]] Number operator*(Number a, Number b);
[[nodiscard]] Number operator/(Number a, Number b);
[[nodiscard]] Number root(Number a);

/// The same for doubles: for the norm, and for those from which scalars are rounded.
struct Wide {
    double value = 0.0;
};
[[nodiscard]] Wide operator+(Wide a, Wide b);
[[nodiscard]] Wide operator-(Wide a, Wide b);
[[nodiscard]] Wide operator*(Wide a, Wide b);
[[nodiscard]] Wide operator/(Wide a, Wide b);
[[nodiscard]] Wide root(Wide a);
[[nodiscard]] Number narrowed(Wide a);

/// A scalar of section 5, or a given value.
constexpr Number exactly(float value) {
    return {value};
}

namespace oracle {

using distributed::Scalars;

/// The scalars of step t.
[[nodiscard]] Scalars scalars(const problem::HyperParameters& settings, int workers, problem::Index t,
                              double learning_rate);

[[nodiscard]] Number local(const Scalars& s, Number m, Number g, Number e);
[[nodiscard]] Number mean(const Scalars& s, const Number* parts, int workers);
[[nodiscard]] Number reconstruct(const Scalars& s, Number M, Number m);
[[nodiscard]] Number moment(const Scalars& s, Number m, Number ghat);
[[nodiscard]] Number direction(const Scalars& s, bool momentum, Number M, Number m, Number ghat);
[[nodiscard]] Number decayed(const Scalars& s, Number w);
[[nodiscard]] Number update(const Scalars& s, Number decayed, Number u);
/// The sum of squares of one block of the norm, at most 4096 values.
[[nodiscard]] double square_sum(const float* values, int size);

} // namespace oracle

} // namespace truestep::properties::scape::floats
