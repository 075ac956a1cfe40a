#pragma once

#include <cmath>

#include <truestep/distributed/element.hpp>
#include <truestep/gpu/algorithms/quad.hpp>

// Algorithms that only the benchmarks use. They run over the same blocks as gpu/'s own, so their
// host form is tested and their elements are counted alike. One block a tile.

namespace truestep::gpu::bench {

using distributed::Scalars;

/// A random number that depends only on the seed and the index.
TRUESTEP_BLOCK std::uint64_t counter_bits(std::uint64_t seed, Index index) {
    std::uint64_t x = seed * 0x9e37'79b9'7f4a'7c15U + static_cast<std::uint64_t>(index);
    x = (x ^ (x >> 33U)) * 0xff51'afd7'ed55'8ccdU;
    x = (x ^ (x >> 33U)) * 0xc4ce'b9fe'1a85'ec53U;
    return x ^ (x >> 33U);
}

/// Approximately normal: the sum of four uniform numbers, exact in fp32, times a constant.
TRUESTEP_BLOCK float counter_value(std::uint64_t seed, Index index) {
    const std::uint64_t bits = counter_bits(seed, index);
    float sum = 0.0F;
    TRUESTEP_UNROLL
    for (unsigned part = 0; part < 4; ++part)
        sum = sum + static_cast<float>((bits >> (16U * part)) & 0xffffU) * 0x1p-16F;
    return (sum - 2.0F) * 1.7F;
}

/// Fills memory with random data.
struct Fill {
    struct Arguments {
        std::uint64_t seed;
        Index size;
        float* values;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.size);
        const bool aligned = is_aligned(a.values);
        block.phase([&](int thread) {
            for_quads(
                block, thread, begin, end, [](int, Index) {},
                [&](int, Index at) {
                    Quad quad;
                    TRUESTEP_UNROLL
                    for (Index i = 0; i < quad_size; ++i)
                        quad.value[i] = counter_value(a.seed, at + i);
                    store(a.values, at, a.size, aligned, quad);
                });
        });
    }
};

/// Reads without writing: the yardstick of selection.
struct Read {
    struct Arguments {
        Index size;
        const float* values;
        std::uint32_t never; ///< bits that no value has
        std::uint32_t* seen;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.size);
        const bool aligned = is_aligned(a.values);
        block.phase([&](int thread) {
            Quad quad[quads_in_flight]{};
            bool seen = false;
            for_quads(
                block, thread, begin, end,
                [&](int number, Index at) { quad[number] = load(a.values, at, a.size, aligned); },
                [&](int number, Index) {
                    TRUESTEP_UNROLL
                    for (const float value : quad[number].value)
                        seen = seen || distributed::element::score(value) == a.never;
                });
            if (seen)
                block.set_bits(*a.seen, 1U);
        });
    }
};

/// Section 3 in one pass, correction `adam` or `none`: 20 bytes per parameter.
struct AdamS {
    struct Arguments {
        Scalars scalars;
        Index size;
        const float* g;
        float* w;
        float* m;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.size);
        const bool aligned = is_aligned(a.g) && is_aligned(a.w) && is_aligned(a.m);
        block.phase([&](int thread) {
            Quad g[quads_in_flight]{};
            Quad w[quads_in_flight]{};
            Quad m[quads_in_flight]{};
            for_quads(
                block, thread, begin, end,
                [&](int number, Index at) {
                    g[number] = load(a.g, at, a.size, aligned);
                    w[number] = load(a.w, at, a.size, aligned);
                    m[number] = load(a.m, at, a.size, aligned);
                },
                [&](int number, Index at) {
                    TRUESTEP_UNROLL
                    for (Index i = 0; i < quad_size; ++i) {
                        const float before = m[number].value[i];
                        const float M = distributed::element::moment(a.scalars, before, g[number].value[i]);
                        const float u =
                            distributed::element::direction_adam(a.scalars, M, before, g[number].value[i]);
                        m[number].value[i] = M;
                        w[number].value[i] = distributed::element::update(
                            a.scalars, w[number].value[i] * a.scalars.decay, u);
                    }
                    store(a.w, at, a.size, aligned, w[number]);
                    store(a.m, at, a.size, aligned, m[number]);
                });
        });
    }
};

/// AdamW with decoupled decay, in the same arithmetic: 28 bytes per parameter.
struct AdamW {
    struct Arguments {
        Scalars scalars;
        Index size;
        const float* g;
        float* w;
        float* m;
        float* v;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.size);
        const bool aligned = is_aligned(a.g) && is_aligned(a.w) && is_aligned(a.m) && is_aligned(a.v);
        const Scalars& s = a.scalars;
        block.phase([&](int thread) {
            Quad g[quads_in_flight]{};
            Quad w[quads_in_flight]{};
            Quad m[quads_in_flight]{};
            Quad v[quads_in_flight]{};
            for_quads(
                block, thread, begin, end,
                [&](int number, Index at) {
                    g[number] = load(a.g, at, a.size, aligned);
                    w[number] = load(a.w, at, a.size, aligned);
                    m[number] = load(a.m, at, a.size, aligned);
                    v[number] = load(a.v, at, a.size, aligned);
                },
                [&](int number, Index at) {
                    TRUESTEP_UNROLL
                    for (Index i = 0; i < quad_size; ++i) {
                        const float gradient = g[number].value[i];
                        float& first = m[number].value[i];
                        float& second = v[number].value[i];
                        float& parameter = w[number].value[i];
                        first = (s.b1 * first) + (s.a1 * gradient);
                        second = (s.b2 * second) + (s.a2 * (gradient * gradient));
                        const float u = (first * s.inv1) / ((std::sqrt(second) * s.invs2) + s.epsilon);
                        parameter = distributed::element::update(s, parameter * s.decay, u);
                    }
                    store(a.w, at, a.size, aligned, w[number]);
                    store(a.m, at, a.size, aligned, m[number]);
                    store(a.v, at, a.size, aligned, v[number]);
                });
        });
    }
};

} // namespace truestep::gpu::bench
