#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// The operations on one coordinate, in the arithmetic of section 5: written once for the host and
// the device. A kernel is the launch around these functions. Everything that includes this is
// compiled without contraction.

#if defined(__CUDACC__)
#define TRUESTEP_ELEMENT __host__ __device__ inline
#else
#define TRUESTEP_ELEMENT inline
#endif

namespace truestep::distributed {

/// The scalars of one step, each computed in double and rounded once.
struct Scalars {
    float b1 = 0.0F;
    float a1 = 0.0F;
    float b2 = 0.0F;
    float a2 = 0.0F;
    float epsilon = 0.0F;
    float learning_rate = 0.0F;
    float decay = 0.0F;
    float inv1 = 0.0F;
    float invs2 = 0.0F;
    float workers = 0.0F;
};

/// The inner optimizers of section 13.2, with AdamS for each of its bias corrections.
enum class InnerRule : std::uint8_t { sgd, adams, adams_momentum, adamw };

namespace element {

/// The greatest magnitude that a gradient may have (section 4.1).
constexpr float greatest_gradient = 0x1p56F;

/// False for a NaN, an infinity and too large a value.
TRUESTEP_ELEMENT bool acceptable(float g) {
    return std::abs(g) <= greatest_gradient;
}

/// c of section 4.2. Off the last mask m is +0; the term stays, because it decides the sign of a zero.
TRUESTEP_ELEMENT float local(const Scalars& s, float m, float g, float e) {
    return ((s.b1 * m) + (s.a1 * g)) + e;
}

/// The score by which selection compares: the magnitude's bits as an unsigned number.
TRUESTEP_ELEMENT std::uint32_t score(float c) {
    return std::bit_cast<std::uint32_t>(c) & 0x7fff'ffffU;
}

/// The bits of a finite c in bf16 (section 21): nearest even, subnormals kept.
TRUESTEP_ELEMENT std::uint16_t to_bf16(float c) {
    const auto bits = std::bit_cast<std::uint32_t>(c);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}
TRUESTEP_ELEMENT float from_bf16(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}
/// The least magnitude that does not round to a finite bf16, halfway above the greatest one.
constexpr std::uint32_t beyond_bf16 = 0x7f7f'8000U;

/// The exponent E of section 21, as fp32 holds it: 1 to 254, where 254 also stands for infinity; 0
/// if all values are below a normal number.
TRUESTEP_ELEMENT int exponent_of_score(std::uint32_t greatest) {
    const int biased = static_cast<int>(greatest >> 23U);
    return biased > 254 ? 254 : biased;
}

/// The factor 2^s of E5M2 and its inverse, each as a product of two fp32 numbers, because fp32 may
/// not hold 2^s itself.
struct E5m2Scale {
    float up[2];
    float down[2];
};
TRUESTEP_ELEMENT E5m2Scale e5m2_scale(int biased_exponent) {
    const int s = 15 - (biased_exponent - 127);
    const auto power = [](int n) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23U);
    };
    return {{power(s / 2), power(s - s / 2)}, {power(-(s / 2)), power(-(s - s / 2))}};
}

constexpr std::uint32_t infinite_e5m2 = 0x7cU;

/// The bits of a value in E5M2 (section 21): nearest even, subnormals kept. Larger values become
/// the greatest number; only infinities stay infinite.
TRUESTEP_ELEMENT std::uint8_t to_e5m2(const E5m2Scale& scale, float c) {
    constexpr float greatest = 57344.0F;
    constexpr float least_normal = 0x1p-14F;
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(c) >> 31U;
    const float scaled = std::abs((c * scale.up[0]) * scale.up[1]);
    const float x = scaled < greatest ? scaled : greatest;
    const auto bits = std::bit_cast<std::uint32_t>(x);
    // Adding 128, whose last place is 2^-16, rounds to a multiple of that.
    const std::uint32_t small =
        std::bit_cast<std::uint32_t>(x + 128.0F) - std::bit_cast<std::uint32_t>(128.0F);
    const std::uint32_t normal = ((bits + 0xf'ffffU + ((bits >> 21U) & 1U)) >> 21U) - (112U << 2U);
    const std::uint32_t finite = x < least_normal ? small : normal;
    return static_cast<std::uint8_t>((sign << 7U) | (score(c) < 0x7f80'0000U ? finite : infinite_e5m2));
}
TRUESTEP_ELEMENT float from_e5m2(const E5m2Scale& scale, std::uint8_t bits) {
    const std::uint32_t magnitude = bits & 0x7fU;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24U;
    // The exponent bits are 112 too low for fp32; multiplying also gives the subnormals correctly.
    const float x = std::bit_cast<float>(magnitude << 21U) * 0x1p112F;
    const float c = (x * scale.down[0]) * scale.down[1];
    const std::uint32_t finite = std::bit_cast<std::uint32_t>(c);
    return std::bit_cast<float>(sign | (magnitude < infinite_e5m2 ? finite : 0x7f80'0000U));
}

/// ghat of section 4.5.
TRUESTEP_ELEMENT float reconstruct(const Scalars& s, float M, float m) {
    return (M - (s.b1 * m)) / s.a1;
}

/// M recomputed from the clipped ghat (section 4.7).
TRUESTEP_ELEMENT float moment(const Scalars& s, float m, float ghat) {
    return (s.b1 * m) + (s.a1 * ghat);
}

/// u of section 3 for the corrections `none` and `adam`; the scalars are 1 where there is no
/// correction.
TRUESTEP_ELEMENT float direction_adam(const Scalars& s, float M, float m, float g) {
    const float v = (s.b2 * (m * m)) + (s.a2 * (g * g));
    return (M * s.inv1) / ((std::sqrt(v) * s.invs2) + s.epsilon);
}

TRUESTEP_ELEMENT float direction_momentum(const Scalars& s, float M, float m, float g) {
    const float q = m * s.inv1;
    const float v = (s.b2 * (q * q)) + (s.a2 * (g * g));
    return (M * s.inv1) / (std::sqrt(v) + s.epsilon);
}

/// The update on the mask of a parameter that has already decayed.
TRUESTEP_ELEMENT float update(const Scalars& s, float decayed, float u) {
    return decayed - (s.learning_rate * u);
}

/// v of AdamW, which stores it (section 13.2), and its u.
TRUESTEP_ELEMENT float second_moment(const Scalars& s, float v, float g) {
    return (s.b2 * v) + (s.a2 * (g * g));
}

TRUESTEP_ELEMENT float direction_adamw(const Scalars& s, float m, float v) {
    return (m * s.inv1) / ((std::sqrt(v) * s.invs2) + s.epsilon);
}

/// One inner step of section 13.2, in place: x, and the moments that the rule has.
template <InnerRule rule>
TRUESTEP_ELEMENT void inner(const Scalars& s, float g, float& x, float& m, float& v) {
    const float last = m;
    float u = g;
    if (rule != InnerRule::sgd)
        m = moment(s, last, g);
    if (rule == InnerRule::adams)
        u = direction_adam(s, m, last, g);
    if (rule == InnerRule::adams_momentum)
        u = direction_momentum(s, m, last, g);
    if (rule == InnerRule::adamw) {
        v = second_moment(s, v, g);
        u = direction_adamw(s, m, v);
    }
    x = update(s, x * s.decay, u);
}

/// y of section 13.3.
TRUESTEP_ELEMENT float drift(float eta, float theta, float x) {
    return theta + (eta * (x - theta));
}

/// Adds one more neighbour of section 13.4; the other makes z from all of them.
TRUESTEP_ELEMENT float pull(float acc, float lambda, float y, float of_neighbour) {
    return acc + (lambda * (y - of_neighbour));
}

TRUESTEP_ELEMENT float gossiped(float a, float y, float acc) {
    return y - (a * acc);
}

/// theta of section 13.5; `moves` is y or z.
TRUESTEP_ELEMENT float carried(float gamma, float z, float moves, float before) {
    return z + (gamma * (moves - before));
}

} // namespace element

} // namespace truestep::distributed
