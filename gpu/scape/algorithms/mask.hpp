#pragma once

#include <truestep/gpu/algorithms/prefix.hpp>
#include <truestep/gpu/algorithms/quad.hpp>
#include <truestep/problem/tunable.hpp>

namespace truestep::gpu::scape {

/// A mask over d coordinates in a block's memory: bits, and tables with which three loads find a
/// coordinate's place in a vector packed on the mask.
struct MaskView {
    std::uint64_t* words;
    std::uint16_t* ranks; ///< one per word: selected coordinates before it in its tile
    Index* offsets;       ///< one per tile: selected coordinates before it; and the total
};

TRUESTEP_BLOCK std::uint64_t word_of(const MaskView& mask, Index index) {
    return mask.words[index / word_bits];
}

/// Selected coordinates before `index`, which is less than d.
TRUESTEP_BLOCK Index before(const MaskView& mask, Index index, std::uint64_t word) {
    return mask.offsets[index / tile] + mask.ranks[index / word_bits] +
           bits_set(word & bits_below(index % word_bits));
}
TRUESTEP_BLOCK Index before(const MaskView& mask, Index index) {
    return before(mask, index, word_of(mask, index));
}
/// Selected coordinates of [begin, end), which is not empty.
TRUESTEP_BLOCK Index selected_in(const MaskView& mask, Index begin, Index end) {
    const std::uint64_t word = word_of(mask, end - 1);
    return before(mask, end - 1, word) + (has_bit(word, (end - 1) % word_bits) ? 1 : 0) -
           before(mask, begin);
}

/// The bits of [begin, end) in the word that begins at coordinate `at`.
TRUESTEP_BLOCK std::uint64_t own_bits(Index at, Index begin, Index end) {
    if (end <= at || begin >= at + word_bits)
        return 0;
    std::uint64_t bits = ~std::uint64_t{0};
    if (at < begin)
        bits &= ~bits_below(begin - at);
    if (end < at + word_bits)
        bits &= bits_below(end - at);
    return bits;
}

/// A word's halves, in which a block's own atomics set bits.
constexpr int half_bits = 32;

/// A tile of a mask in a block's memory.
struct MaskTile {
    std::uint64_t words[tile_words];
    std::uint16_t ranks[tile_words];
};

/// Loads a thread's share of tile `number`, of which the mask has `size` coordinates. The tile is
/// complete after the phase.
template <class Block>
TRUESTEP_BLOCK void load_tile(const Block& block, int thread, const MaskView& mask, Index number, int size,
                              MaskTile& to) {
    const std::uint64_t* const words = mask.words + number * tile_words;
    const std::uint16_t* const ranks = mask.ranks + number * tile_words;
    TRUESTEP_UNROLL
    for (int first = 0; first < tile_words; first += block.threads()) {
        const int i = first + thread;
        if (i < tile_words && i * static_cast<int>(word_bits) < size) {
            to.words[i] = words[i];
            to.ranks[i] = ranks[i];
        }
    }
}

/// Notes where the selected of four neighbours are in their tile, in the order in which they are
/// packed.
TRUESTEP_BLOCK void note_places(const MaskTile& mask, int at, std::uint16_t* places) {
    const int number = at / static_cast<int>(word_bits);
    const std::uint64_t word = mask.words[number];
    const unsigned has = four_bits(word, at);
    int packed = mask.ranks[number] + bits_set(word & bits_below(at % static_cast<int>(word_bits)));
    TRUESTEP_UNROLL
    for (int i = 0; i < quad_size; ++i)
        if (has_bit(has, i))
            places[packed++] = static_cast<std::uint16_t>(at + i);
}

/// A tile's selected coordinates, in a block's memory.
struct SelectedOfTile {
    MaskTile mask;
    std::uint16_t places[tile];
};

/// Calls work(at, packed) for each selected coordinate of tile `number`; `size` is the model's.
/// Takes three phases, and calls `work` in the last. All threads share the calls, however few there
/// are.
template <class Block, class Work>
TRUESTEP_BLOCK void over_selected(Block& block, SelectedOfTile& shared, const MaskView& mask, Index number,
                                  Index size, const Work& work) {
    const Index begin = number * tile;
    const int in_tile = static_cast<int>(least(tile, size - begin));
    const Index first = mask.offsets[number];
    const int count = static_cast<int>(mask.offsets[number + 1] - first);
    block.phase([&](int thread) { load_tile(block, thread, mask, number, in_tile, shared.mask); });
    block.phase([&](int thread) {
        TRUESTEP_UNROLL
        for (int quad = 0; quad < quads_of_thread(block); ++quad)
            if (const int at = place_of_quad(block, thread, quad); at < in_tile)
                note_places(shared.mask, at, shared.places);
    });
    block.phase([&](int thread) {
        TRUESTEP_ROLLED
        for (int i = thread; i < count; i += block.threads())
            work(begin + shared.places[i], first + i);
    });
}

/// Sets the own bits of a word to `bits`; others may write the rest of it at the same time.
template <class Block>
TRUESTEP_BLOCK void store_bits(Block& block, std::uint64_t& word, std::uint64_t own, std::uint64_t bits) {
    if (own == ~std::uint64_t{0}) {
        word = bits;
    } else if (own != 0) {
        block.keep_bits(word, ~own);
        block.set_bits(word, bits);
    }
}

/// The words of a tile that a thread handles when a warp handles the tile.
constexpr int warp_share = (static_cast<int>(tile_words) + warp_threads - 1) / warp_threads;
struct BitsOfWords {
    std::uint32_t set[warp_share];
};

/// Computes the ranks of `count` words from a tile's first one on into `ranks`, and how much their
/// tiles select into `counts`. A warp does a tile; word(i) is called once for each.
template <class Block, class Word>
TRUESTEP_BLOCK void rank_words(Block& block, int count, std::uint16_t* ranks, std::uint32_t* counts,
                               const Word& word) {
    constexpr int words = static_cast<int>(tile_words);
    typename Block::template PerThread<BitsOfWords> bits(block);
    for (int first = 0; first * words < count; first += block.threads() / warp_threads) {
        const auto tile_of = [&](int thread) { return first + thread / warp_threads; };
        // `count` where a thread has no such word.
        const auto place = [&](int thread, int i) {
            const int in_tile = thread % warp_threads * warp_share + i;
            return in_tile < words ? least(tile_of(thread) * words + in_tile, count) : count;
        };
        block.warp_scan(
            [&](int thread) {
                std::uint32_t sum = 0;
                TRUESTEP_UNROLL
                for (int i = 0; i < warp_share; ++i) {
                    const int at = place(thread, i);
                    bits[thread].set[i] = at < count ? static_cast<std::uint32_t>(bits_set(word(at))) : 0U;
                    sum += bits[thread].set[i];
                }
                return sum;
            },
            [&](int thread, std::uint32_t before, std::uint32_t all) {
                if (place(thread, 0) % words == 0 && place(thread, 0) < count)
                    counts[tile_of(thread)] = all;
                TRUESTEP_UNROLL
                for (int i = 0; i < warp_share; ++i) {
                    if (const int at = place(thread, i); at < count)
                        ranks[at] = static_cast<std::uint16_t>(before);
                    before += bits[thread].set[i];
                }
            });
    }
}

/// Computes the ranks of the words, and how much each tile selects; Offsets does the rest.
struct CountWords {
    static constexpr Index tiles = problem::tunable<Index>("count_tiles"); ///< of a block
    static constexpr Index words = tiles * tile_words;

    struct Arguments {
        Index first_word; ///< a tile's first one
        Index last_word;
        MaskView mask;
        std::uint32_t* counts; ///< of the tiles, from the first word's on
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = a.first_word + block.index() * words;
        const std::uint64_t* const from = a.mask.words + begin;
        rank_words(block, static_cast<int>(least(words, a.last_word - begin)), a.mask.ranks + begin,
                   a.counts + block.index() * tiles, [&](int at) { return from[at]; });
    }
};

/// How many coordinates two masks have in common.
struct InCommon {
    static constexpr Index words = problem::tunable<Index>("common_words"); ///< of a block

    struct Arguments {
        const std::uint64_t* one;
        const std::uint64_t* other;
        Index words;
        Index* common; ///< 0 before
    };
    using Shared = Scan;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = block.index() * words;
        const Index end = least(begin + words, a.words);
        const std::uint32_t sum = sum_of(block, shared, [&](int thread) {
            std::uint32_t mine = 0;
            for (Index i = begin + thread; i < end; i += block.threads())
                mine += static_cast<std::uint32_t>(bits_set(a.one[i] & a.other[i]));
            return mine;
        });
        block.phase([&](int thread) {
            if (thread == 0)
                block.add(*a.common, Index{sum});
        });
    }
};

} // namespace truestep::gpu::scape
