#pragma once

#include <truestep/distributed/element.hpp>
#include <truestep/gpu/algorithms/quad.hpp>

#include "select.hpp"

// The passes over all coordinates before the exchange. One block a tile.
//
// For this rank's own segments the selection needs to know which c lie above and in its bracket. A
// local pass has c in registers. For tiles that lie in one segment it therefore does the work of
// Bracket. If the bracket holds, the selection reads nothing more of them.

namespace truestep::gpu::scape {

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
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
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
                    TRUESTEP_UNROLL
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

/// The arithmetic of section 5.
struct Arithmetic {
    TRUESTEP_BLOCK static float local(const Scalars& s, float m, float g, float e) {
        return distributed::element::local(s, m, g, e);
    }
};

/// A tile that the pass looks at for the selection. It lies in one segment; otherwise `cell` is -1.
struct WatchedTile {
    Index cell;
    Index segment;
};
/// The search that a local pass makes for the selection.
struct Watch {
    Index first_tile; ///< of this rank's segments
    Index count;      ///< of their tiles, 0 where nothing is to be looked for
    const WatchedTile* tiles;
    SelectArguments select;
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
    Watch watch; ///< its tiles are a launch of their own
};

/// Sections 4.2, 4.4 and 4.6: c from m (packed on `last`), g and e. On `current`, c goes into the
/// payload (packed on it) and e becomes +0; elsewhere e becomes c. m moves to `current`.
///
/// A tile's packed values are contiguous. All threads fetch them and put them back one after the
/// other, and look them up in the block's own memory. This takes three phases, of which only the
/// first waits for memory.
template <class Arithmetic, bool Watching>
struct LocalPassWith {
    using Arguments = LocalPassArguments;
    struct Shared {
        MaskTile last;
        MaskTile current;
        float m[tile];
        float payload[tile];
        std::uint16_t moved[tile];             ///< where in m its m stands, and 1; or 0 where there is none
        std::uint32_t above[tile / half_bits]; ///< the bracket
        std::uint32_t above_count;
        std::uint32_t inside_count;
    };
    /// Three blocks in flight hide more of the memory latency.
    static constexpr int blocks_at_once = 3;

    /// One block for each watched tile, or for each of the others.
    static Index blocks(Index tiles, const Watch& watch) {
        return Watching ? watch.count : tiles - watch.count;
    }

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index number = Watching || block.index() >= a.watch.first_tile
                                 ? block.index() + (Watching ? a.watch.first_tile : a.watch.count)
                                 : block.index();
        const bool whole = number * tile + tile <= a.size && is_aligned(a.g) && is_aligned(a.e);
        const WatchedTile watched = Watching ? a.watch.tiles[block.index()] : WatchedTile{-1, 0};
        const bool look =
            watched.cell >= 0 && a.watch.select.searches[watched.segment].state == SearchState::bracket;
        if (whole && (look || !Watching))
            pass<true>(block, shared, a, number, watched);
        else
            pass<false>(block, shared, a, number, watched);
    }

  private:
    /// `Whole`: all quads of the tile exist and are aligned, and the tile is watched if this is the
    /// watching pass.
    template <bool Whole, class Block>
    TRUESTEP_BLOCK static void pass(Block& block, Shared& shared, const Arguments& a, Index number_of_tile,
                                    const WatchedTile& watched) {
        const Index begin = number_of_tile * tile;
        const int size = static_cast<int>(Whole ? tile : greatest<Index>(0, least(tile, a.size - begin)));
        const float* const tile_g = a.g + begin;
        float* const tile_e = a.e + begin;
        const bool g_aligned = is_aligned(a.g);
        const bool e_aligned = is_aligned(a.e);
        const Index m_begin = a.last.offsets[number_of_tile];
        const int m_count = static_cast<int>(a.last.offsets[number_of_tile + 1] - m_begin);
        const Index packed_begin = a.current.offsets[number_of_tile];
        const int packed_count = static_cast<int>(a.current.offsets[number_of_tile + 1] - packed_begin);
        const std::uint32_t low = Whole && Watching ? a.watch.select.searches[watched.segment].low : 0U;
        typename Block::template PerSweep<Quad, tile_quads> g(block);
        typename Block::template PerSweep<Quad, tile_quads> e(block);
        block.phase([&](int thread) {
            TRUESTEP_UNROLL
            for (int number = 0; number < quads_of_thread(block); ++number) {
                const int at = place_of_quad(block, thread, number);
                g(thread, number) = load_in_tile<Whole>(tile_g, at, size, g_aligned);
                e(thread, number) = load_in_tile<Whole>(tile_e, at, size, e_aligned);
            }
            load_tile(block, thread, a.last, number_of_tile, size, shared.last);
            load_tile(block, thread, a.current, number_of_tile, size, shared.current);
            if (Whole && Watching)
                begin_look(block, thread, shared);
            TRUESTEP_ROLLED
            for (int i = thread; i < m_count; i += block.threads())
                shared.m[i] = a.m[m_begin + i];
        });
        block.phase([&](int thread) {
            TRUESTEP_UNROLL
            for (int number = 0; number < quads_of_thread(block); ++number) {
                const int at = place_of_quad(block, thread, number);
                if (!Whole && at >= size)
                    continue;
                Quad c;
                store_in_tile<Whole>(tile_e, at, size, e_aligned,
                                     local(shared, a, at, g(thread, number), e(thread, number), c));
                if (Whole && Watching)
                    look(block, shared, a.watch.select, watched.cell, low, at, c);
            }
        });
        block.phase([&](int thread) {
            TRUESTEP_ROLLED
            for (int i = thread; i < packed_count; i += block.threads()) {
                const int from = shared.moved[i];
                a.payload[packed_begin + i] = shared.payload[i];
                a.m_on_current[packed_begin + i] = from == 0 ? 0.0F : shared.m[from - 1];
            }
            if (Whole && Watching)
                write_words(block, thread, shared, a.watch.select.next + begin / word_bits);
        });
        if (Whole && Watching)
            block.phase([&](int thread) {
                if (thread != 0)
                    return;
                a.watch.select.above[watched.cell] = shared.above_count;
                a.watch.select.inside[watched.cell] = shared.inside_count;
            });
    }

    template <class Block>
    TRUESTEP_BLOCK static void begin_look(const Block& block, int thread, Shared& shared) {
        TRUESTEP_ROLLED
        for (int i = thread; i < static_cast<int>(tile) / half_bits; i += block.threads())
            shared.above[i] = 0;
        if (thread == 0)
            shared.above_count = shared.inside_count = 0;
    }

    /// Does for a quad of scores what Bracket does.
    template <class Block>
    TRUESTEP_BLOCK static void look(Block& block, Shared& shared, const SelectArguments& a, Index cell,
                                    std::uint32_t low, int at, const Quad& c) {
        std::uint32_t above = 0;
        TRUESTEP_UNROLL
        for (int i = 0; i < quad_size; ++i) {
            const std::uint32_t key = distributed::element::score(c.value[i]);
            if (key > low + (bracket_width - 1)) {
                above |= 1U << static_cast<unsigned>(i);
            } else if (key >= low) {
                const Index free = block.add(shared.inside_count, 1U);
                if (free < cell_room) {
                    a.keys[cell * cell_room + free] = key;
                    a.places[cell * cell_room + free] = static_cast<std::uint16_t>(at + i);
                }
            }
        }
        if (above != 0)
            block.set_bits(shared.above[at / half_bits], above << static_cast<unsigned>(at % half_bits));
    }

    /// The last mask has been read, so its place takes the coming one.
    template <class Block>
    TRUESTEP_BLOCK static void write_words(Block& block, int thread, Shared& shared, std::uint64_t* next) {
        TRUESTEP_ROLLED
        for (int i = thread; i < static_cast<int>(tile_words); i += block.threads()) {
            const std::uint64_t high = shared.above[2 * i + 1];
            const std::uint64_t bits = shared.above[2 * i] | high << half_bits;
            next[i] = bits;
            block.add(shared.above_count, static_cast<std::uint32_t>(bits_set(bits)));
        }
    }

    /// Returns for four neighbours the new e: c, or 0 where c goes into the payload.
    TRUESTEP_BLOCK static Quad local(Shared& shared, const Arguments& a, int at, const Quad& g,
                                     const Quad& e, Quad& all_c) {
        const int word = at / static_cast<int>(word_bits);
        const std::uint64_t last = shared.last.words[word];
        const std::uint64_t current = shared.current.words[word];
        const std::uint64_t below = bits_below(at % static_cast<int>(word_bits));
        const unsigned had = four_bits(last, at);
        const unsigned has = four_bits(current, at);
        int from = shared.last.ranks[word] + bits_set(last & below);
        int to = shared.current.ranks[word] + bits_set(current & below);
        Quad rest;
        TRUESTEP_UNROLL
        for (Index i = 0; i < quad_size; ++i) {
            const bool had_m = has_bit(had, i);
            const float m = had_m ? shared.m[from++] : 0.0F;
            const float c = Arithmetic::local(a.scalars, m, g.value[i], e.value[i]);
            all_c.value[i] = c;
            rest.value[i] = has_bit(has, i) ? 0.0F : c;
            if (has_bit(has, i)) {
                shared.payload[to] = c;
                shared.moved[to++] = static_cast<std::uint16_t>(had_m ? from : 0);
            }
        }
        return rest;
    }
};

using LocalPass = LocalPassWith<Arithmetic, false>;
struct WatchingPass : LocalPassWith<Arithmetic, true> {};

/// For the bootstrap, in which the mask is unknown during the local pass: moves c from e on the
/// mask to the payload, and leaves +0. m is +0.
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
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
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

} // namespace truestep::gpu::scape
