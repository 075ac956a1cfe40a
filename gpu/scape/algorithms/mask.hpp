#pragma once

#include <scape/gpu/algorithms/prefix.hpp>
#include <scape/problem/tunable.hpp>

namespace scape::gpu {

/// A mask over d coordinates where a block computes: bits, and what it takes to find a coordinate's place
/// in a vector packed on the mask with three loads.
struct MaskView {
    std::uint64_t* words;
    std::uint16_t* ranks; ///< one per word: selected coordinates before it in its tile
    Index* offsets;       ///< one per tile: selected coordinates before it; and the total
};

SCAPE_BLOCK std::uint64_t word_of(const MaskView& mask, Index index) {
    return mask.words[index / word_bits];
}

/// Selected coordinates before `index`, which is less than d.
SCAPE_BLOCK Index before(const MaskView& mask, Index index, std::uint64_t word) {
    return mask.offsets[index / tile] + mask.ranks[index / word_bits] +
           bits_set(word & bits_below(index % word_bits));
}
SCAPE_BLOCK Index before(const MaskView& mask, Index index) {
    return before(mask, index, word_of(mask, index));
}
/// Selected coordinates of [begin, end), which is not empty.
SCAPE_BLOCK Index selected_in(const MaskView& mask, Index begin, Index end) {
    const std::uint64_t word = word_of(mask, end - 1);
    return before(mask, end - 1, word) + (has_bit(word, (end - 1) % word_bits) ? 1 : 0) -
           before(mask, begin);
}

/// The bits of [begin, end) in the word that begins at coordinate `at`.
SCAPE_BLOCK std::uint64_t own_bits(Index at, Index begin, Index end) {
    if (end <= at || begin >= at + word_bits)
        return 0;
    std::uint64_t bits = ~std::uint64_t{0};
    if (at < begin)
        bits &= ~bits_below(begin - at);
    if (end < at + word_bits)
        bits &= bits_below(end - at);
    return bits;
}

/// Sets the own bits of a word to `bits`; others may write the rest of it at the same time.
template <class Block>
SCAPE_BLOCK void store_bits(Block& block, std::uint64_t& word, std::uint64_t own, std::uint64_t bits) {
    if (own == ~std::uint64_t{0}) {
        word = bits;
    } else if (own != 0) {
        block.keep_bits(word, ~own);
        block.set_bits(word, bits);
    }
}

/// Ranks of the words, and selected coordinates of each tile; Offsets does the rest. Where `corrupt` is
/// set, the mask is emptied: what is packed on it stays within its bounds.
struct CountWords {
    static constexpr Index tiles = problem::tunable<Index>(16, 2); ///< of a block
    static constexpr Index words = tiles * tile_words;

    struct Arguments {
        Index first_word; ///< a tile's first one
        Index last_word;
        const std::uint32_t* corrupt; ///< or null
        MaskView mask;
        std::uint32_t* counts; ///< of the tiles, from the first word's on
    };
    struct Shared {
        std::uint32_t sums[2][words];
    };

    template <class Block>
    SCAPE_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = a.first_word + block.index() * words;
        const Index count = least(words, a.last_word - begin);
        const bool corrupt = a.corrupt != nullptr && *a.corrupt != 0;
        block.phase([&](int thread) {
            for (Index i = thread; i < words; i += block.threads()) {
                if (corrupt && i < count)
                    a.mask.words[begin + i] = 0;
                shared.sums[0][i] =
                    i < count ? static_cast<std::uint32_t>(bits_set(a.mask.words[begin + i])) : 0U;
            }
        });
        int side = 0;
        for (Index reach = 1; reach < tile_words; reach *= 2, side = 1 - side)
            block.phase([&](int thread) {
                for (Index i = thread; i < words; i += block.threads()) {
                    const std::uint32_t value = shared.sums[side][i];
                    shared.sums[1 - side][i] =
                        i % tile_words >= reach ? value + shared.sums[side][i - reach] : value;
                }
            });
        block.phase([&](int thread) {
            for (Index i = thread; i < count; i += block.threads()) {
                a.mask.ranks[begin + i] = i % tile_words == 0
                                              ? std::uint16_t{0}
                                              : static_cast<std::uint16_t>(shared.sums[side][i - 1]);
                if (i % tile_words == tile_words - 1 || i == count - 1)
                    a.counts[block.index() * tiles + i / tile_words] = shared.sums[side][i];
            }
        });
    }
};

/// How many coordinates two masks have in common.
struct InCommon {
    static constexpr Index words = problem::tunable<Index>(4096, 3); ///< of a block

    struct Arguments {
        const std::uint64_t* one;
        const std::uint64_t* other;
        Index words;
        Index* common; ///< 0 before
    };
    struct Shared {
        std::uint32_t sum;
    };

    template <class Block>
    SCAPE_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = block.index() * words;
        const Index end = least(begin + words, a.words);
        block.phase([&](int thread) {
            if (thread == 0)
                shared.sum = 0;
        });
        block.phase([&](int thread) {
            std::uint32_t sum = 0;
            for (Index i = begin + thread; i < end; i += block.threads())
                sum += static_cast<std::uint32_t>(bits_set(a.one[i] & a.other[i]));
            if (sum != 0)
                block.add(shared.sum, sum);
        });
        block.phase([&](int thread) {
            if (thread == 0)
                block.add(*a.common, static_cast<Index>(shared.sum));
        });
    }
};

} // namespace scape::gpu
