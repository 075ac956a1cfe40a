#pragma once

#include <truestep/distributed/element.hpp>
#include <truestep/gpu/algorithms/quad.hpp>

// The inner steps of section 13.2. One block a tile.

namespace truestep::gpu::gasloc {

using distributed::InnerRule;

/// Inputs and outputs of an inner step: the same vectors, or others.
struct InnerArguments {
    distributed::Scalars scalars;
    Index size;
    const float* g;
    const float* x;
    const float* m; ///< not of sgd
    const float* v; ///< of adamw
    float* x_to;
    float* m_to;
    float* v_to;
    std::uint32_t* not_finite; ///< set where a gradient is not
};

/// Every finite number has lower bits than an infinity.
TRUESTEP_BLOCK bool is_finite(float value) {
    return distributed::element::score(value) < 0x7f80'0000U;
}

template <InnerRule rule>
struct InnerStep {
    using Arguments = InnerArguments;
    struct Shared {};
    static constexpr bool has_m = rule != InnerRule::sgd;
    static constexpr bool has_v = rule == InnerRule::adamw;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.size);
        const bool g_aligned = is_aligned(a.g);
        const bool aligned = is_aligned(a.x) && is_aligned(a.x_to) && is_aligned(a.m) &&
                             is_aligned(a.m_to) && is_aligned(a.v) && is_aligned(a.v_to);
        block.phase([&](int thread) {
            Quad g[quads_in_flight]{};
            Quad x[quads_in_flight]{};
            Quad m[quads_in_flight]{};
            Quad v[quads_in_flight]{};
            bool all_finite = true;
            for_quads(
                block, thread, begin, end,
                [&](int number, Index at) {
                    g[number] = load(a.g, at, a.size, g_aligned);
                    x[number] = load(a.x, at, a.size, aligned);
                    if constexpr (has_m)
                        m[number] = load(a.m, at, a.size, aligned);
                    if constexpr (has_v)
                        v[number] = load(a.v, at, a.size, aligned);
                },
                [&](int number, Index at) {
                    TRUESTEP_UNROLL
                    for (Index i = 0; i < quad_size; ++i) {
                        const float gradient = g[number].value[i];
                        all_finite = is_finite(gradient) && all_finite;
                        distributed::element::inner<rule>(a.scalars, gradient, x[number].value[i],
                                                          m[number].value[i], v[number].value[i]);
                    }
                    store(a.x_to, at, a.size, aligned, x[number]);
                    if constexpr (has_m)
                        store(a.m_to, at, a.size, aligned, m[number]);
                    if constexpr (has_v)
                        store(a.v_to, at, a.size, aligned, v[number]);
                });
            if (!all_finite)
                block.set_bits(*a.not_finite, 1U);
        });
    }
};

// Separate names let ci/gpu-resources tell the steps apart.
struct SgdStep : InnerStep<InnerRule::sgd> {};
struct AdamSStep : InnerStep<InnerRule::adams> {};
struct AdamSMomentumStep : InnerStep<InnerRule::adams_momentum> {};
struct AdamWStep : InnerStep<InnerRule::adamw> {};

} // namespace truestep::gpu::gasloc
