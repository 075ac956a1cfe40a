#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include <truestep/problem/layout.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/reference/bf16.hpp>
#include <truestep/reference/scape/check.hpp>
#include <truestep/reference/vector.hpp>

// Section 21: how c is rounded in order to travel.

namespace truestep::reference::scape {

constexpr int lowest_exponent = -126; ///< of a normal fp32 number
constexpr int highest_exponent = 127;
/// The exponent of everything smaller, including 0: less than any exponent.
constexpr int no_exponent = lowest_exponent - 1;

/// E with 2^E <= |c| < 2^(E+1), limited to the exponents of fp32.
inline int exponent_of(double c) {
    if (c == 0.0)
        return no_exponent;
    if (!std::isfinite(c))
        return highest_exponent;
    int above = 0;
    static_cast<void>(std::frexp(c, &above));
    return std::clamp(above - 1, no_exponent, highest_exponent);
}

/// Rounds to the nearest number of E5M2 after a factor 2^(15 - E), ties to even, and scales back: 3
/// significant bits, steps of 2^-16 below 2^-14, nothing beyond 57344. Infinities stay.
inline double nearest_e5m2(double c, int E) {
    if (c == 0.0 || !std::isfinite(c))
        return c;
    const int s = 15 - E;
    const double scaled = std::ldexp(c, s);
    int exponent = 0;
    static_cast<void>(std::frexp(scaled, &exponent));
    constexpr int significant_bits = 3;
    constexpr int least_exponent = -16;
    constexpr double greatest = 57344.0;
    const double unit = std::ldexp(1.0, std::max(exponent - significant_bits, least_exponent));
    const double rounded = std::clamp(std::nearbyint(scaled / unit) * unit, -greatest, greatest);
    return std::ldexp(rounded, -s);
}

/// How a scalar is rounded to travel. One that carries a bound specializes it.
template <class T>
struct Rounding {
    using Exponent = int;
    static T bf16(const T& c) { return static_cast<T>(nearest_bf16(static_cast<double>(c))); }
    static T e5m2(const T& c, Exponent E) {
        return static_cast<T>(nearest_e5m2(static_cast<double>(c), E));
    }
    static Exponent exponent(const T& c) { return exponent_of(static_cast<double>(c)); }
    static Exponent exactly(int E) { return E; }
    static Exponent greater(Exponent a, Exponent b) { return std::max(a, b); }
    /// E, or `before` where no value has an exponent.
    static Exponent or_else(Exponent E, Exponent before) { return E == no_exponent ? before : E; }
};

/// The greatest exponent of any rank's |c| on S; no_exponent where all are below a normal fp32 number.
template <class T>
typename Rounding<T>::Exponent exponent_on(const Coordinates& S, const PerRank<T>& c) {
    auto E = Rounding<T>::exponent(T(0.0));
    for (const Vector<T>& of_rank : c)
        for (const Index i : S)
            E = Rounding<T>::greater(E, Rounding<T>::exponent(of_rank[i]));
    return E;
}

/// A value as it travels. E is given for e5m2.
template <class T>
T as_it_travels(const T& value, problem::Payload payload,
                const std::optional<typename Rounding<T>::Exponent>& E) {
    switch (problem::format_of(payload)) {
    case problem::Payload::bf16:
        return Rounding<T>::bf16(value);
    case problem::Payload::e5m2:
        return Rounding<T>::e5m2(value, E.value());
    default:
        return value;
    }
}

/// The values that each rank sends of its c on S, packed.
template <class T>
PerRank<T> payloads(const PerRank<T>& c, const Coordinates& S, problem::Payload payload,
                    const std::optional<typename Rounding<T>::Exponent>& E) {
    PerRank<T> p;
    for (const Vector<T>& of_rank : c) {
        p.push_back(of_rank(S));
        for (T& value : p.back())
            value = as_it_travels(value, payload, E);
    }
    return p;
}

/// The mean on S as it returns: rounded by the owners where the payload says so.
template <class T>
Vector<T> mean_that_travels(Vector<T> mean, problem::Payload payload,
                            const std::optional<typename Rounding<T>::Exponent>& E) {
    if (problem::rounds_mean(payload))
        for (T& value : mean)
            value = as_it_travels(value, payload, E);
    return mean;
}

/// Adds what rounding the mean has lost, times P, to the residual of each coordinate's owner.
template <class T>
void keep_what_owners_lose(const Vector<T>& mean, const Vector<T>& M, const Coordinates& S,
                           const problem::Problem& problem, PerRank<T>& e) {
    const Vector<T> lost = (mean - M) * T(static_cast<double>(problem.workers));
    auto segment = problem.segments.begin();
    for (std::size_t i = 0; i < S.size(); ++i) {
        while (segment->end <= S[i])
            ++segment;
        T& of_owner = e[static_cast<std::size_t>(segment->owner)][S[i]];
        of_owner = of_owner + lost[static_cast<Index>(i)];
    }
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

} // namespace truestep::reference::scape
