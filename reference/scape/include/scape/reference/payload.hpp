#pragma once

#include <algorithm>
#include <cmath>

#include <scape/problem/layout.hpp>
#include <scape/problem/problem.hpp>
#include <scape/reference/check.hpp>
#include <scape/reference/vector.hpp>

// Section 21: what of c travels.

namespace scape::reference {

/// The nearest number of 8 significant bits and the exponents of fp32, of two the even one. What lies
/// beyond the greatest becomes 2^128, which is no number of bf16.
inline double nearest_bf16(double c) {
    if (c == 0.0 || !std::isfinite(c))
        return c;
    int exponent = 0; // |c| is in [2^(exponent-1), 2^exponent)
    static_cast<void>(std::frexp(c, &exponent));
    constexpr int significant_bits = 8;
    constexpr int least_exponent = -133; // of a subnormal's last bit
    const double unit = std::ldexp(1.0, std::max(exponent - significant_bits, least_exponent));
    return std::nearbyint(c / unit) * unit;
}

/// How a scalar is rounded to bf16. One that carries a bound says so otherwise.
template <class T>
struct Bf16 {
    static T nearest(const T& c) { return static_cast<T>(nearest_bf16(static_cast<double>(c))); }
};

/// What each rank sends of its c on S, packed.
template <class T>
PerRank<T> payloads(const PerRank<T>& c, const Coordinates& S, problem::Payload payload) {
    PerRank<T> p;
    for (const Vector<T>& of_rank : c) {
        p.push_back(of_rank(S));
        if (payload == problem::Payload::bf16)
            for (Index i = 0; i < p.back().size(); ++i)
                p.back()[i] = Bf16<T>::nearest(p.back()[i]);
    }
    return p;
}

/// Throws RefusedStep for the first payload that is too large for bf16, by rank and then by index.
template <class T>
void refuse_unless_it_travels(const PerRank<T>& p, const PerRank<T>& c, const Coordinates& S,
                              const problem::Layout& layout) {
    for (std::size_t rank = 0; rank < p.size(); ++rank)
        for (std::size_t i = 0; i < S.size(); ++i)
            if (const auto sent = static_cast<double>(p[rank][static_cast<Index>(i)]);
                !(std::abs(sent) < 0x1p128))
                throw RefusedStep::of_payload(static_cast<int>(rank), S[i],
                                              static_cast<double>(c[rank][S[i]]), layout);
}

} // namespace scape::reference
