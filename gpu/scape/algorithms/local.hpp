#pragma once

#include <scape/distributed/element.hpp>
#include <scape/gpu/algorithms/quad.hpp>

#include "mask.hpp"

// The passes over all coordinates before the exchange. One block a tile.

namespace scape::gpu {

using distributed::Scalars;

/// Section 4.1: the first coordinate whose gradient is refused.
struct FirstRefused {
    struct Arguments {
        const float* g;
        Index size;
        Index* first; ///< d before
    };
    struct Shared {
        Index first;
    };

    template <class Block>
    SCAPE_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.size);
        const bool aligned = is_aligned(a.g);
        block.phase([&](int thread) {
            if (thread == 0)
                shared.first = a.size;
        });
        block.phase([&](int thread) {
            Quad g[quads_in_flight]{};
            for_quads(
                block, thread, begin, end,
                [&](int number, Index at) { g[number] = load(a.g, at, a.size, aligned); },
                [&](int number, Index at) {
                    SCAPE_UNROLL
                    for (Index i = 0; i < quad_size; ++i)
                        if (!distributed::element::acceptable(g[number].value[i]))
                            block.lower(shared.first, at + i);
                });
        });
        block.phase([&](int thread) {
            if (thread == 0 && shared.first < a.size)
                block.lower(*a.first, shared.first);
        });
    }
};

/// Section 5's.
struct Arithmetic {
    SCAPE_BLOCK static float local(const Scalars& s, float m, float g, float e) {
        return distributed::element::local(s, m, g, e);
    }
};

struct LocalPassArguments {
    Scalars scalars;
    Index size;
    const float* g;
    float* e;
    MaskView last;
    const float* m;
    MaskView current;
    float* payload;
    float* m_on_current;
};

/// Sections 4.2, 4.4 and 4.6: c from m (packed on `last`), g and e; on `current` c goes into the payload
/// (packed on it) and e becomes +0; elsewhere e becomes c. m moves to `current`.
template <class Arithmetic>
struct LocalPassWith {
    using Arguments = LocalPassArguments;
    struct Shared {};
    /// With a third block in flight memory waits less; a fourth would spill registers.
    static constexpr int blocks_at_once = 3;

    template <class Block>
    SCAPE_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.size);
        const bool g_aligned = is_aligned(a.g);
        const bool e_aligned = is_aligned(a.e);
        block.phase([&](int thread) {
            Quad g[quads_in_flight]{};
            Quad e[quads_in_flight]{};
            std::uint64_t last[quads_in_flight]{};
            std::uint64_t current[quads_in_flight]{};
            for_quads(
                block, thread, begin, end,
                [&](int number, Index at) {
                    g[number] = load(a.g, at, a.size, g_aligned);
                    e[number] = load(a.e, at, a.size, e_aligned);
                    last[number] = word_of(a.last, at);
                    current[number] = word_of(a.current, at);
                },
                [&](int number, Index at) {
                    const unsigned had = four_bits(last[number], at);
                    const unsigned has = four_bits(current[number], at);
                    Index from = had == 0 ? 0 : before(a.last, at, last[number]);
                    Index to = has == 0 ? 0 : before(a.current, at, current[number]);
                    Quad rest;
                    SCAPE_UNROLL
                    for (Index i = 0; i < quad_size; ++i) {
                        const float m = has_bit(had, i) ? a.m[from++] : 0.0F;
                        const float c =
                            Arithmetic::local(a.scalars, m, g[number].value[i], e[number].value[i]);
                        rest.value[i] = has_bit(has, i) ? 0.0F : c;
                        if (has_bit(has, i)) {
                            a.payload[to] = c;
                            a.m_on_current[to++] = m;
                        }
                    }
                    store(a.e, at, a.size, e_aligned, rest);
                });
        });
    }
};

using LocalPass = LocalPassWith<Arithmetic>;

/// At the bootstrap the mask was not yet known in the local pass: moves c from e on the mask to the
/// payload, and leaves +0. m is +0.
struct Extract {
    struct Arguments {
        Index size;
        float* e;
        MaskView current;
        float* payload;
        float* m;
    };
    struct Shared {};

    template <class Block>
    SCAPE_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            const std::uint64_t word = word_of(a.current, at);
            if (!has_bit(word, at % word_bits))
                return;
            const Index to = before(a.current, at, word);
            a.payload[to] = a.e[at];
            a.m[to] = 0.0F;
            a.e[at] = 0.0F;
        });
    }
};

} // namespace scape::gpu
