#pragma once

#include <truestep/problem/tunable.hpp>

#include "select.hpp"

// The code in which masks travel (distributed/scape/mask_code.hpp has the format), written and read by
// blocks.

namespace truestep::gpu::scape {

/// Coordinates that share a byte of counts in the code of positions.
constexpr Index code_block = problem::tunable<Index>("position_block");
/// The part of a segment that a block reads: 256 code blocks, which are whole bytes of a bitmap.
constexpr Index code_tile_blocks = problem::tunable<Index>("code_tile_blocks");
constexpr Index code_tile = code_block * code_tile_blocks;

/// Encodes the own segments from the mask in the making, which has been counted. One block a group.
struct Encode {
    struct Arguments {
        const Segment* segments;
        const Group* groups;
        MaskView mask;
        std::uint8_t* code;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Group group = a.groups[block.index()];
        const Segment segment = a.segments[group.segment];
        std::uint8_t* const code = a.code + segment.code;
        // The units that begin in this group.
        const auto units = [&](Index size, Index& first, Index& last) {
            first = (group.begin - segment.begin + size - 1) / size;
            last = (group.end - segment.begin + size - 1) / size;
        };
        if (segment.kind == SegmentCode::bitmap)
            block.phase([&](int thread) {
                Index first = 0;
                Index last = 0;
                units(8, first, last);
                for (Index byte = first + thread; byte < last; byte += block.threads())
                    code[byte] = eight_bits(a.mask, segment.begin + byte * 8, segment.end);
            });
        if (segment.kind == SegmentCode::positions)
            block.phase([&](int thread) {
                Index first = 0;
                Index last = 0;
                units(code_block, first, last);
                for (Index number = first + thread; number < last; number += block.threads()) {
                    const Index begin = segment.begin + number * code_block;
                    code[number] = static_cast<std::uint8_t>(
                        selected_in(a.mask, begin, least(begin + code_block, segment.end)));
                }
                write_positions(block, thread, a, segment, group, code);
            });
    }

  private:
    TRUESTEP_BLOCK static std::uint8_t eight_bits(const MaskView& mask, Index at, Index end) {
        const Index word = at / word_bits;
        const Index bit = at % word_bits;
        std::uint64_t bits = mask.words[word] >> static_cast<unsigned>(bit);
        if (bit > word_bits - 8 && (word + 1) * word_bits < end)
            bits |= mask.words[word + 1] << static_cast<unsigned>(word_bits - bit);
        if (end - at < 8)
            bits &= bits_below(end - at);
        return static_cast<std::uint8_t>(bits & 0xffU);
    }

    template <class Block>
    TRUESTEP_BLOCK static void write_positions(const Block& block, int thread, const Arguments& a,
                                               const Segment& segment, const Group& group,
                                               std::uint8_t* code) {
        const Index counts = (segment.end - segment.begin + code_block - 1) / code_block;
        const Index base = before(a.mask, segment.begin);
        const Index last_word = (group.end - 1) / word_bits;
        for (Index word = group.begin / word_bits + thread; word <= last_word; word += block.threads()) {
            const Index at = word * word_bits;
            std::uint64_t bits = a.mask.words[word] & own_bits(at, group.begin, group.end);
            if (bits == 0)
                continue;
            std::uint8_t* position = code + counts + (before(a.mask, at + lowest_bit(bits)) - base);
            // A word that begins before its segment counts from one block earlier.
            const auto first = static_cast<int>((at - segment.begin + code_block) % code_block);
            for (; bits != 0; bits &= bits - 1) {
                const int place = first + lowest_bit(bits);
                *position++ = static_cast<std::uint8_t>(place < code_block ? place : place - code_block);
            }
        }
    }
};

/// Counts what each tile of code selects. A warp counts a tile.
struct DecodeCount {
    /// A block takes so many, one for each warp of a device's.
    static constexpr Index tiles = problem::tunable<Index>("code_count_tiles");

    struct Arguments {
        const Segment* segments;
        const Group* tiles; ///< of all segments
        Index size;         ///< how many
        const std::uint8_t* code;
        std::uint32_t* counts;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index end = least((block.index() + 1) * tiles, a.size);
        for (Index first = block.index() * tiles; first < end; first += block.threads() / warp_threads)
            block.warp_scan(
                [&](int thread) {
                    const Index number = first + thread / warp_threads;
                    return number < end ? count(a, a.tiles[number], thread % warp_threads) : 0U;
                },
                [&](int thread, std::uint32_t, std::uint32_t all) {
                    const Index number = first + thread / warp_threads;
                    if (number < end && thread % warp_threads == 0)
                        a.counts[number] = all;
                });
    }

  private:
    static constexpr int loads = 8; ///< of a lane at once: all counts of a tile

    /// A lane's share.
    TRUESTEP_BLOCK static std::uint32_t count(const Arguments& a, const Group& part, int lane) {
        const Segment& segment = a.segments[part.segment];
        const std::uint8_t* const code = a.code + segment.code;
        const auto size = static_cast<int>(part.end - part.begin);
        if (segment.kind == SegmentCode::nothing)
            return lane == 0 ? static_cast<std::uint32_t>(size) : 0U;
        const bool bitmap = segment.kind == SegmentCode::bitmap;
        const int unit = bitmap ? 8 : static_cast<int>(code_block);
        const std::uint8_t* const of_tile = code + (part.begin - segment.begin) / unit;
        std::uint32_t mine = 0;
        for (int first = lane; first * unit < size; first += loads * warp_threads) {
            unsigned values[loads]; // loads that do not wait for each other
            TRUESTEP_UNROLL
            for (int i = 0; i < loads; ++i)
                values[i] =
                    (first + i * warp_threads) * unit < size ? of_tile[first + i * warp_threads] : 0U;
            TRUESTEP_UNROLL
            for (const unsigned value : values)
                mine += bitmap ? static_cast<std::uint32_t>(bits_set(value)) : value;
        }
        return mine;
    }
};

/// The coordinates of a mask that a block decodes.
constexpr Index decode_tiles = problem::tunable<Index>("decode_tiles");
constexpr Index decode_chunk = decode_tiles * tile;

/// Decodes the mask of all segments: a chunk's bits are gathered in the block's memory, and its
/// words, ranks and counts stored once. A code that does not fit these segments and ks sets
/// `corrupt`. It still selects no more than they do, so packing on the mask stays within its
/// bounds. One block a chunk.
struct Decode {
    struct Arguments {
        const Segment* segments;
        const Group* pieces;      ///< of all segments, cut at chunks, in ascending order
        const Index* first_piece; ///< of each chunk, and how many there are
        const std::uint8_t* code;
        const Index* offsets; ///< what the tiles of code select, summed up
        Index words;          ///< of the mask
        MaskView mask;
        std::uint32_t* counts;  ///< of the mask's tiles
        std::uint32_t* corrupt; ///< set if the code does not fit these segments and ks
    };
    static constexpr int blocks_at_once = 5; ///< one more, and registers would be spilled
    static constexpr int most_blocks = 512;  ///< of a piece: a power of two, for the search
    static_assert(decode_chunk / code_block + 2 < most_blocks);
    /// Positions that a thread handles at once.
    static constexpr int at_once = 4;
    /// Halves before and behind the chunk: a code's block may begin or end there.
    static constexpr int margin = static_cast<int>(code_block) / half_bits + 1;
    static constexpr int chunk_halves = static_cast<int>(decode_chunk) / half_bits;
    struct Shared {
        std::uint32_t halves[margin + chunk_halves + margin];
        std::uint32_t begins[most_blocks]; ///< where its blocks begin among a tile's positions
        Scan scan;
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        block.phase([&](int thread) {
            for (int i = thread; i < margin + chunk_halves + margin; i += block.threads())
                shared.halves[i] = 0;
        });
        const Index last = a.first_piece[block.index() + 1];
        for (Index number = a.first_piece[block.index()]; number < last; ++number) {
            const Group piece = a.pieces[number];
            const Segment segment = a.segments[piece.segment];
            if (a.offsets[segment.last_part] - a.offsets[segment.first_part] != segment.k)
                block.phase([&](int thread) { // the same in all blocks: none reads beyond the code
                    if (thread == 0)
                        block.set_bits(*a.corrupt, 1U);
                });
            else if (segment.kind == SegmentCode::positions)
                positions(block, shared, a, piece, segment);
            else
                whole_words(block, shared, a, piece, segment);
        }
        const Index first_word = block.index() * decode_chunk / word_bits;
        std::uint64_t* const words = a.mask.words + first_word;
        rank_words(block, static_cast<int>(least(decode_chunk / word_bits, a.words - first_word)),
                   a.mask.ranks + first_word, a.counts + block.index() * decode_tiles, [&](int at) {
                       const std::uint64_t high = shared.halves[margin + 2 * at + 1];
                       return words[at] = shared.halves[margin + 2 * at] | high << half_bits;
                   });
    }

  private:
    template <class Block>
    TRUESTEP_BLOCK static void whole_words(Block& block, Shared& shared, const Arguments& a,
                                           const Group& piece, const Segment& segment) {
        const Index first_word = block.index() * decode_chunk / word_bits;
        block.phase([&](int thread) {
            for (Index word = piece.begin / word_bits + thread; word * word_bits < piece.end;
                 word += block.threads()) {
                const std::uint64_t bits = bits_of(block, a, piece, segment, word * word_bits);
                const auto half = margin + static_cast<int>(2 * (word - first_word));
                block.set_bits(shared.halves[half], static_cast<std::uint32_t>(bits));
                block.set_bits(shared.halves[half + 1], static_cast<std::uint32_t>(bits >> half_bits));
            }
        });
    }

    /// A word's bits from a bitmap, whose bytes begin where the segment does; without a bitmap, all
    /// own bits.
    template <class Block>
    TRUESTEP_BLOCK static std::uint64_t bits_of(Block& block, const Arguments& a, const Group& piece,
                                                const Segment& segment, Index at) {
        const std::uint64_t own = own_bits(at, piece.begin, piece.end);
        if (segment.kind != SegmentCode::bitmap)
            return own;
        const Index begin = greatest(at, piece.begin);
        const Index end = least(at + word_bits, piece.end);
        std::uint64_t bits = 0;
        for (Index byte = (begin - segment.begin) / 8; segment.begin + byte * 8 < end; ++byte) {
            const std::uint64_t eight = a.code[segment.code + byte];
            const Index first = segment.begin + byte * 8;
            bits |= first >= at ? eight << static_cast<unsigned>(first - at)
                                : eight >> static_cast<unsigned>(at - first);
            if (first + 8 > segment.end && (eight >> static_cast<unsigned>(segment.end - first)) != 0)
                block.set_bits(*a.corrupt, 1U); // a bit beyond the end
        }
        return bits & own;
    }

    /// The positions of a piece, counted from the begin of the margin. Those of its segment that are
    /// not in the piece are in a margin.
    struct Places {
        const std::uint8_t* positions; ///< of the tile of code in which the first block is
        int blocks;                    ///< that have coordinates of the piece
        int origin;                    ///< of the first of them
        int segment_end;
    };

    template <class Block>
    TRUESTEP_BLOCK static void positions(Block& block, Shared& shared, const Arguments& a,
                                         const Group& piece, const Segment& segment) {
        const std::uint8_t* const counts = a.code + segment.code;
        const Index all_blocks = (segment.end - segment.begin + code_block - 1) / code_block;
        const Index first = (piece.begin - segment.begin) / code_block;
        const Index tile_of_code = first / code_tile_blocks;
        const std::uint8_t* const of_tile = counts + tile_of_code * code_tile_blocks;
        // This includes the blocks of the tile that come before the piece.
        const auto skipped = static_cast<int>(first - tile_of_code * code_tile_blocks);
        const auto last = static_cast<int>((piece.end - segment.begin + code_block - 1) / code_block -
                                           tile_of_code * code_tile_blocks);
        const int share = (last + block.threads() - 1) / block.threads();
        scan(
            block, shared.scan,
            [&](int thread) {
                std::uint32_t mine = 0;
                TRUESTEP_ROLLED
                for (int i = thread * share; i < least((thread + 1) * share, last); ++i)
                    mine += of_tile[i];
                return mine;
            },
            [&](int thread, std::uint32_t before, std::uint32_t) {
                TRUESTEP_ROLLED
                for (int i = thread * share; i < least((thread + 1) * share, last); ++i) {
                    if (i >= skipped)
                        shared.begins[i - skipped] = before;
                    before += of_tile[i];
                    if (i == last - 1)
                        shared.begins[last - skipped] = before;
                }
                TRUESTEP_ROLLED
                for (int i = last - skipped + 1 + thread; i < most_blocks; i += block.threads())
                    shared.begins[i] = ~std::uint32_t{0};
            });
        const Index chunk = block.index() * decode_chunk - margin * half_bits;
        const Index selected_before =
            a.offsets[segment.first_part + tile_of_code] - a.offsets[segment.first_part];
        const Places places{
            counts + all_blocks + selected_before, last - skipped,
            static_cast<int>(segment.begin + first * code_block - chunk),
            static_cast<int>(least(segment.end - chunk, 2 * (decode_chunk + margin * half_bits)))};
        block.phase([&](int thread) {
            const std::uint32_t end = shared.begins[places.blocks];
            const std::uint32_t each =
                (end - shared.begins[0] + static_cast<std::uint32_t>(block.threads()) - 1) /
                static_cast<std::uint32_t>(block.threads());
            const std::uint32_t at = shared.begins[0] + each * static_cast<std::uint32_t>(thread);
            if (at < end)
                some_positions(block, shared, a, places, at, least(at + each, end));
        });
    }

    /// A thread's positions are neighbours: it looks for their block once, and puts the bits of a
    /// half word together before it stores them.
    template <class Block>
    TRUESTEP_BLOCK static void some_positions(Block& block, Shared& shared, const Arguments& a,
                                              const Places& places, std::uint32_t begin,
                                              std::uint32_t end) {
        int number = block_of(shared, begin);
        std::uint32_t next = shared.begins[number + 1];
        int origin = places.origin + number * static_cast<int>(code_block);
        int limit = least(static_cast<int>(code_block), places.segment_end - origin);
        int previous = begin == shared.begins[number] ? -1 : places.positions[begin - 1];
        int fits = -1; // its sign, as long as positions ascend and are below the limit
        auto half = static_cast<unsigned>(origin) / half_bits; // not the same for all threads of a warp
        std::uint32_t bits = 0;
        const auto take = [&](std::uint32_t at, int position) {
            while (at >= next) {
                next = shared.begins[++number + 1];
                origin += static_cast<int>(code_block);
                limit = least(static_cast<int>(code_block), places.segment_end - origin);
                previous = -1;
            }
            fits &= (previous - position) & (position - limit);
            previous = position;
            const auto place = static_cast<unsigned>(origin + position);
            if (place / half_bits != half)
                block.set_bits(shared.halves[half], bits);
            bits = (place / half_bits != half ? 0U : bits) | std::uint32_t{1} << place % half_bits;
            half = place / half_bits;
        };
        const auto take_some = [&](std::uint32_t at, std::uint32_t size) {
            int values[at_once]; // loads that do not wait for each other
            TRUESTEP_UNROLL
            for (std::uint32_t i = 0; i < at_once; ++i)
                values[i] = i < size ? places.positions[at + i] : 0;
            TRUESTEP_UNROLL
            for (std::uint32_t i = 0; i < at_once; ++i)
                if (i < size)
                    take(at + i, values[i]);
        };
        std::uint32_t at = begin;
        TRUESTEP_ROLLED
        for (; at + at_once <= end; at += at_once)
            take_some(at, at_once);
        take_some(at, end - at);
        block.set_bits(shared.halves[half], bits);
        if (fits >= 0)
            block.set_bits(*a.corrupt, 1U);
    }

    /// The last block that begins at a position or before it.
    TRUESTEP_BLOCK static int block_of(const Shared& shared, std::uint32_t at) {
        int number = 0;
        TRUESTEP_UNROLL
        for (int step = most_blocks / 2; step > 0; step /= 2)
            if (shared.begins[number + step] <= at)
                number += step;
        return number;
    }
};

} // namespace truestep::gpu::scape
