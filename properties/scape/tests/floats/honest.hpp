#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <truestep/reference/coefficients.hpp>

// The formulas of section 5 in all forms that level REL allows. The level counts the same products,
// quotients and roots of the same scalars, each rounded once to fp32, and sums in any order. A product may
// be fused into a sum, factors may come in any order, a quotient may be a product with a reciprocal, and a
// root a product with a reciprocal root.

namespace truestep::properties::scape::floats::honest {

using Scalars = reference::Coefficients<float>;

/// Which form a place of a formula takes: drawn once for a coordinate, used up from below.
class Choice {
  public:
    explicit Choice(std::uint64_t bits) : bits_(bits) {}
    /// Less than `forms`, at most 16.
    unsigned of(unsigned forms) {
        const auto result = static_cast<unsigned>(bits_ % forms);
        bits_ /= forms;
        return result;
    }

  private:
    std::uint64_t bits_;
};

inline float local(Choice& choice, const Scalars& s, float m, float g, float e) {
    const float bm = s.b1 * m;
    const float ag = s.a1 * g;
    switch (choice.of(9)) {
    case 0:
        return (bm + ag) + e;
    case 1:
        return bm + (ag + e);
    case 2:
        return (bm + e) + ag;
    case 3:
        return std::fma(s.b1, m, ag) + e;
    case 4:
        return std::fma(s.a1, g, bm) + e;
    case 5:
        return std::fma(s.b1, m, std::fma(s.a1, g, e));
    case 6:
        return std::fma(s.a1, g, std::fma(s.b1, m, e));
    case 7:
        return std::fma(s.b1, m, ag + e);
    default:
        return std::fma(s.a1, g, bm + e);
    }
}

inline float pairwise(std::span<const float> values) {
    if (values.size() == 1)
        return values[0];
    return pairwise(values.first(values.size() / 2)) + pairwise(values.subspan(values.size() / 2));
}

inline float mean(Choice& choice, std::span<const float> parts) {
    float sum = parts[0];
    switch (choice.of(3)) {
    case 0:
        for (std::size_t i = 1; i < parts.size(); ++i)
            sum = sum + parts[i];
        break;
    case 1:
        sum = parts.back();
        for (std::size_t i = parts.size() - 1; i > 0; --i)
            sum = sum + parts[i - 1];
        break;
    default:
        sum = pairwise(parts);
    }
    const auto workers = static_cast<float>(parts.size());
    return choice.of(2) == 0 ? sum / workers : sum * (1.0F / workers);
}

inline float reconstruct(Choice& choice, const Scalars& s, float M, float m) {
    const float difference = choice.of(2) == 0 ? M - (s.b1 * m) : std::fma(-s.b1, m, M);
    return choice.of(2) == 0 ? difference / s.a1 : difference * (1.0F / s.a1);
}

inline float moment(Choice& choice, const Scalars& s, float m, float ghat) {
    switch (choice.of(3)) {
    case 0:
        return (s.b1 * m) + (s.a1 * ghat);
    case 1:
        return std::fma(s.b1, m, s.a1 * ghat);
    default:
        return std::fma(s.a1, ghat, s.b1 * m);
    }
}

/// b*x*x + a*y*y.
inline float squares(Choice& choice, float b, float x, float a, float y) {
    const bool one_way = choice.of(2) == 0;
    const bool other_way = choice.of(2) == 0;
    const float from_x = one_way ? b * (x * x) : (b * x) * x;
    const float from_y = other_way ? a * (y * y) : (a * y) * y;
    switch (choice.of(3)) {
    case 0:
        return from_x + from_y;
    case 1:
        return one_way ? std::fma(b, x * x, from_y) : std::fma(b * x, x, from_y);
    default:
        return other_way ? std::fma(a, y * y, from_x) : std::fma(a * y, y, from_x);
    }
}

inline float root(Choice& choice, float v) {
    const float plain = std::sqrt(v);
    return choice.of(2) == 0 || !(v > 0.0F) ? plain : v * (1.0F / plain);
}

/// v's root as the correction has it, with epsilon.
inline float denominator(Choice& choice, const Scalars& s, problem::BiasCorrection correction, float m,
                         float ghat) {
    if (correction == problem::BiasCorrection::momentum)
        return root(choice, squares(choice, s.b2, m * s.inv1, s.a2, ghat)) + s.eps;
    const float v = root(choice, squares(choice, s.b2, m, s.a2, ghat));
    return choice.of(2) == 0 ? (v * s.invs2) + s.eps : std::fma(v, s.invs2, s.eps);
}

inline float direction(Choice& choice, const Scalars& s, problem::BiasCorrection correction, float M,
                       float m, float ghat) {
    const float below = denominator(choice, s, correction, m, ghat);
    switch (choice.of(4)) {
    case 0:
        return (M * s.inv1) / below;
    case 1:
        return (M * s.inv1) * (1.0F / below);
    case 2:
        return M * (s.inv1 / below);
    default:
        return (M / below) * s.inv1;
    }
}

inline float update(Choice& choice, const Scalars& s, float w, float u) {
    switch (choice.of(3)) {
    case 0:
        return (w * s.decay) - (s.lr * u);
    case 1:
        return std::fma(-s.lr, u, w * s.decay);
    default:
        return std::fma(w, s.decay, -(s.lr * u));
    }
}

/// min(1, limit / (norm + 1e-6)), the norm in fp32 or in double.
inline float clip_factor(Choice& choice, double limit, const std::vector<float>& ghat) {
    constexpr double above_zero = 1e-6;
    float sum = 0.0F;
    std::vector<float> squares(ghat.size());
    std::transform(ghat.begin(), ghat.end(), squares.begin(), [](float value) { return value * value; });
    if (choice.of(2) == 0) {
        sum = pairwise(squares);
    } else {
        constexpr std::size_t lane_count = 16;
        std::vector<float> lanes(lane_count, 0.0F);
        for (std::size_t i = 0; i < ghat.size(); ++i)
            lanes[i % lane_count] = std::fma(ghat[i], ghat[i], lanes[i % lane_count]);
        sum = pairwise(lanes);
    }
    const bool in_double = choice.of(2) == 0;
    // Beyond the range of fp32 the level says nothing.
    if (!in_double && std::isfinite(sum))
        return std::min(1.0F,
                        static_cast<float>(limit) / (std::sqrt(sum) + static_cast<float>(above_zero)));
    double exact = 0.0;
    for (const float value : ghat)
        exact += static_cast<double>(value) * static_cast<double>(value);
    return static_cast<float>(std::min(1.0, limit / (std::sqrt(exact) + above_zero)));
}

} // namespace truestep::properties::scape::floats::honest
