// The rules on one coordinate (section 36), Muon's but for its products, and the copies. One block a tile.
#pragma once

#include <cmath>

#include <truestep/distributed/element.hpp>
#include <truestep/gpu/block.hpp>

namespace truestep::gpu::dense {

namespace element = distributed::element;

struct SgdArguments {
    Index size;
    float weight_decay;
    float momentum;
    float rest; ///< 1 - dampening
    float learning_rate;
    bool decays;
    bool keeps; ///< a momentum
    bool nesterov;
    bool first; ///< step
    const float* g;
    float* w;
    float* m;
};

struct SgdStep {
    using Arguments = SgdArguments;
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            const float g = a.decays ? a.g[at] + (a.weight_decay * a.w[at]) : a.g[at];
            float u = g;
            if (a.keeps) {
                const float m = a.first ? g : (a.momentum * a.m[at]) + (a.rest * g);
                a.m[at] = m;
                u = a.nesterov ? g + (a.momentum * m) : m;
            }
            a.w[at] = a.w[at] - (a.learning_rate * u);
        });
    }
};

struct AdamArguments {
    Index size;
    distributed::Scalars scalars;
    float added; ///< the decay that is added to the gradient
    bool adds;
    bool decays; ///< the parameters, by scalars.decay
    bool corrected;
    const float* g;
    float* w;
    float* m;
    float* v;
};

struct AdamMoments {
    TRUESTEP_BLOCK static float first(const distributed::Scalars& s, float m, float g) {
        return element::moment(s, m, g);
    }
};

/// Adam and AdamW. `Moments`: how the first moment is made.
template <class Moments>
struct AdamWith {
    using Arguments = AdamArguments;
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const distributed::Scalars& s = a.scalars;
        over_tile(block, a.size, [&](Index at) {
            const float g = a.adds ? a.g[at] + (a.added * a.w[at]) : a.g[at];
            const float m = Moments::first(s, a.m[at], g);
            const float v = element::second_moment(s, a.v[at], g);
            a.m[at] = m;
            a.v[at] = v;
            const float root = std::sqrt(v);
            const float below = a.corrected ? (root * s.invs2) + s.epsilon : (root + s.epsilon) * s.invs2;
            const float w = a.decays ? a.w[at] * s.decay : a.w[at];
            a.w[at] = element::update(s, w, (m * s.inv1) / below);
        });
    }
};
struct AdamStep : AdamWith<AdamMoments> {};

/// Muon's momentum, and U.
struct MuonMomentum {
    struct Arguments {
        Index size;
        float momentum;
        float rest;
        bool nesterov;
        const float* g;
        float* m;
        float* u;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            const float m = (a.momentum * a.m[at]) + (a.rest * a.g[at]);
            a.m[at] = m;
            a.u[at] = a.nesterov ? (a.momentum * m) + (a.rest * a.g[at]) : m;
        });
    }
};

/// Divides in double and rounds once.
struct DivideBy {
    struct Arguments {
        Index size;
        double divisor;
        float* values;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            a.values[at] = static_cast<float>(static_cast<double>(a.values[at]) / a.divisor);
        });
    }
};

/// Rounds values to bf16 and keeps them as fp32 numbers.
struct KeepInBf16 {
    struct Arguments {
        Index size;
        float* values;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size,
                  [&](Index at) { a.values[at] = element::from_bf16(element::to_bf16(a.values[at])); });
    }
};

/// Muon's update by its orthogonalized matrix.
struct MuonUpdate {
    struct Arguments {
        Index size;
        float decay;
        float by;
        const float* direction;
        float* w;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size,
                  [&](Index at) { a.w[at] = (a.w[at] * a.decay) - (a.by * a.direction[at]); });
    }
};

/// Sets a flag if one of the values is not finite.
struct Finite {
    struct Arguments {
        Index size;
        const float* values;
        std::uint32_t* not_finite;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            if (element::score(a.values[at]) >= 0x7f80'0000U)
                block.set_bits(*a.not_finite, 1U);
        });
    }
};

struct ToBf16 {
    struct Arguments {
        Index size;
        const float* values;
        std::uint16_t* copies;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) { a.copies[at] = element::to_bf16(a.values[at]); });
    }
};

struct FromBf16 {
    struct Arguments {
        Index size;
        const std::uint16_t* copies;
        float* values;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) { a.values[at] = element::from_bf16(a.copies[at]); });
    }
};

} // namespace truestep::gpu::dense
