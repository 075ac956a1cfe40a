#pragma once

#include <cmath>

#include <truestep/distributed/element.hpp>
#include <truestep/gpu/algorithms/quad.hpp>
#include <truestep/problem/tunable.hpp>

#include "mask.hpp"

// What happens between the exchange and the end of a step. ghat is recomputed from M and m where it
// is needed, which is cheaper than storing it.

namespace truestep::gpu::scape {

using distributed::Scalars;

/// The sums of squares of ghat in section 5's order: a block of 4096 values has 256 lanes, however many
/// threads there are.
struct SquareSums {
    static constexpr Index norm_block = problem::tunable<Index>("norm_block");
    static constexpr Index lanes = problem::tunable<Index>("norm_lanes");

    struct Arguments {
        Scalars scalars;
        Index size;
        const float* M;
        const float* m;
        double* sums;
    };
    struct Shared {
        double lane[lanes];
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = block.index() * norm_block;
        const Index end = least(begin + norm_block, a.size);
        block.phase([&](int thread) {
            for (Index lane = thread; lane < lanes; lane += block.threads()) {
                double sum = 0.0;
                TRUESTEP_UNROLL
                for (Index row = 0; row < norm_block; row += lanes)
                    if (const Index at = begin + row + lane; at < end) {
                        const auto ghat = static_cast<double>(
                            distributed::element::reconstruct(a.scalars, a.M[at], a.m[at]));
                        sum = sum + ghat * ghat;
                    }
                shared.lane[lane] = sum;
            }
        });
        for (Index width = lanes / 2; width > 0; width /= 2)
            block.phase([&](int thread) {
                for (Index lane = thread; lane < width; lane += block.threads())
                    shared.lane[lane] = shared.lane[lane] + shared.lane[lane + width];
            });
        block.phase([&](int thread) {
            if (thread == 0)
                a.sums[block.index()] = shared.lane[0];
        });
    }
};

/// The norm's tree (version 2): sums groups of block sums into the next level. A group is a power
/// of two and begins at a multiple of it, so it is a subtree, and its size changes no bit. One
/// block a group.
struct TreeSums {
    static constexpr Index group = problem::tunable<Index>("tree_group");

    struct Arguments {
        Index count;
        const double* sums;
        double* groups;
    };
    struct Shared {
        double sums[group];
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = block.index() * group;
        const Index count = least(group, a.count - begin);
        block.phase([&](int thread) {
            for (Index i = thread; i < count; i += block.threads())
                shared.sums[i] = a.sums[begin + i];
        });
        // A pair's sum replaces its first value; an odd last value thereby moves up unchanged.
        for (Index apart = 1; apart < count; apart *= 2)
            block.phase([&](int thread) {
                for (Index i = 2 * apart * thread; i + apart < count; i += 2 * apart * block.threads())
                    shared.sums[i] = shared.sums[i] + shared.sums[i + apart];
            });
        block.phase([&](int thread) {
            if (thread == 0)
                a.groups[block.index()] = shared.sums[0];
        });
    }
};

/// Results that the host reads at the end of a step.
struct Results {
    Index refused;
    Index overflow;      ///< the first coordinate whose c bf16 cannot represent
    Index less_greatest; ///< the greatest score of a payload, negated, since blocks can find only a minimum
    Index kept;
    double norm;
    float clip_factor;
    float overflowing; ///< the c of that coordinate
    std::uint32_t not_finite;
    std::uint32_t corrupt; ///< a gathered mask did not fit this problem
};

/// The norm of the block sums, added in ascending order (version 1; in version 2 the tree has left
/// one sum), and the factor of section 4.7. One block.
struct Clip {
    struct Arguments {
        Index blocks;
        const double* sums;
        double clip_norm;
        Results* results;
    };
    struct Shared {
        double sums[most_threads];
        double total;
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        block.phase([&](int thread) {
            if (thread == 0)
                shared.total = 0.0;
        });
        for (Index first = 0; first < a.blocks; first += block.threads()) {
            const Index count = least<Index>(block.threads(), a.blocks - first);
            block.phase([&](int thread) {
                if (thread < count)
                    shared.sums[thread] = a.sums[first + thread];
            });
            block.phase([&](int thread) {
                if (thread != 0)
                    return;
                double total = shared.total;
                for (Index i = 0; i < count; ++i)
                    total = total + shared.sums[i];
                shared.total = total;
            });
        }
        block.phase([&](int thread) {
            if (thread != 0)
                return;
            const double norm = std::sqrt(shared.total);
            // A NaN becomes 1, as with std::min; the non-finite M that caused it ends the step.
            const double factor = a.clip_norm / (norm + 1e-6);
            a.results->norm = norm;
            a.results->clip_factor = static_cast<float>(factor < 1.0 ? factor : 1.0);
        });
    }
};

enum class Direction : std::uint8_t { adam, momentum };

/// Sections 4.5, 4.7 and 4.8: decays all coordinates and updates those on the mask, whose M becomes
/// clipped. Without decay, only selected coordinates are touched. One block a tile, in four phases:
/// load and decay the tile and note the places of selected values; update these, spread over all
/// threads; store the tile.
struct Update {
    struct Arguments {
        Scalars scalars;
        Direction direction;
        bool clipping;
        Index size;
        float* w;
        MaskView current;
        float* M;
        const float* m;
        Results* results;
    };
    struct Shared {
        Quad w[tile_quads];
        MaskTile current;
        std::uint16_t places[tile];
    };

    TRUESTEP_BLOCK static bool finite(float value) {
        return distributed::element::score(value) < 0x7f80'0000U;
    }

    /// Computes the new parameter from the decayed one. Returns false if it or M is not finite.
    TRUESTEP_BLOCK static bool select(const Arguments& a, float factor, Index at, float& w) {
        const Scalars& s = a.scalars;
        float M = a.M[at];
        const float m = a.m[at];
        float ghat = distributed::element::reconstruct(s, M, m);
        if (a.clipping) {
            ghat = ghat * factor;
            M = distributed::element::moment(s, m, ghat);
            a.M[at] = M;
        }
        const float u = a.direction == Direction::momentum
                            ? distributed::element::direction_momentum(s, M, m, ghat)
                            : distributed::element::direction_adam(s, M, m, ghat);
        w = distributed::element::update(s, w, u);
        return finite(M) && finite(w);
    }

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        if (block.index() * tile + tile <= a.size && is_aligned(a.w))
            pass<true>(block, shared, a);
        else
            pass<false>(block, shared, a);
    }

  private:
    TRUESTEP_BLOCK static unsigned selected(const Shared& shared, int at) {
        return four_bits(shared.current.words[at / static_cast<int>(word_bits)], at);
    }

    /// `Whole`: all quads of the tile exist and are aligned.
    template <bool Whole, class Block>
    TRUESTEP_BLOCK static void pass(Block& block, Shared& shared, const Arguments& a) {
        float* const tile_w = a.w + block.index() * tile;
        const int size = static_cast<int>(Whole ? tile : least(tile, a.size - block.index() * tile));
        const Index first = a.current.offsets[block.index()];
        const int count = static_cast<int>(a.current.offsets[block.index() + 1] - first);
        const bool aligned = is_aligned(a.w);
        const bool decaying = a.scalars.decay != 1.0F;
        const float factor = a.clipping ? a.results->clip_factor : 1.0F;
        typename Block::template PerSweep<Quad, tile_quads> w(block);
        block.phase([&](int thread) {
            load_tile(block, thread, a.current, block.index(), size, shared.current);
            if (decaying) {
                TRUESTEP_UNROLL
                for (int number = 0; number < quads_of_thread(block); ++number)
                    w(thread, number) =
                        load_in_tile<Whole>(tile_w, place_of_quad(block, thread, number), size, aligned);
            }
        });
        block.phase([&](int thread) {
            if (!decaying) {
                TRUESTEP_UNROLL
                for (int number = 0; number < quads_of_thread(block); ++number) {
                    const int at = place_of_quad(block, thread, number);
                    if ((Whole || at < size) && selected(shared, at) != 0)
                        w(thread, number) = load_in_tile<Whole>(tile_w, at, size, aligned);
                }
            }
            bool all_finite = true;
            TRUESTEP_UNROLL
            for (int number = 0; number < quads_of_thread(block); ++number) {
                const int at = place_of_quad(block, thread, number);
                if ((!Whole && at >= size) || (!decaying && selected(shared, at) == 0))
                    continue;
                if (decaying)
                    all_finite = decay(a.scalars.decay, w(thread, number)) && all_finite;
                shared.w[at / quad_size] = w(thread, number);
                note_places(shared.current, at, shared.places);
            }
            if (!all_finite)
                block.set_bits(a.results->not_finite, 1U);
        });
        block.phase([&](int thread) {
            bool all_finite = true;
            TRUESTEP_ROLLED
            for (int i = thread; i < count; i += block.threads()) {
                const int place = shared.places[i];
                float& value = shared.w[place / quad_size].value[place % quad_size];
                all_finite = select(a, factor, first + i, value) && all_finite;
            }
            if (!all_finite)
                block.set_bits(a.results->not_finite, 1U);
        });
        block.phase([&](int thread) {
            TRUESTEP_UNROLL
            for (int number = 0; number < quads_of_thread(block); ++number) {
                const int at = place_of_quad(block, thread, number);
                if ((Whole || at < size) && (decaying || selected(shared, at) != 0))
                    store_in_tile<Whole>(tile_w, at, size, aligned, shared.w[at / quad_size]);
            }
        });
    }

    /// Returns false if one is not finite. Values behind the end are zeros.
    TRUESTEP_BLOCK static bool decay(float factor, Quad& quad) {
        bool all_finite = true;
        TRUESTEP_UNROLL
        for (float& value : quad.value) {
            value = value * factor;
            all_finite = finite(value) && all_finite;
        }
        return all_finite;
    }
};

} // namespace truestep::gpu::scape
