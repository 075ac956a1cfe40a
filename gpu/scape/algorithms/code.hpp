#pragma once

#include <scape/problem/tunable.hpp>

#include "select.hpp"

// The code in which masks travel (distributed/mask_code.hpp has the format), written and read by blocks.

namespace scape::gpu {

/// Coordinates that share a byte of counts in the code of positions.
constexpr Index code_block = 255;
/// What a block reads of a segment: 256 of those, and whole bytes of a bitmap.
constexpr Index code_tile_blocks = problem::tunable<Index>(256, 8);
constexpr Index code_tile = code_block * code_tile_blocks;

/// The code of the own segments from the mask in the making, which has been counted. One block a group.
struct Encode {
    struct Arguments {
        const Segment* segments;
        const Group* groups;
        MaskView mask;
        std::uint8_t* code;
    };
    struct Shared {};

    template <class Block>
    SCAPE_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Group group = a.groups[block.index()];
        const Segment segment = a.segments[group.segment];
        std::uint8_t* const code = a.code + segment.code;
        // What begins in this group.
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
    SCAPE_BLOCK static std::uint8_t eight_bits(const MaskView& mask, Index at, Index end) {
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
    SCAPE_BLOCK static void write_positions(const Block& block, int thread, const Arguments& a,
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
            for (; bits != 0; bits &= bits - 1)
                *position++ =
                    static_cast<std::uint8_t>((at + lowest_bit(bits) - segment.begin) % code_block);
        }
    }
};

struct DecodeArguments {
    const Segment* segments;
    const Group* tiles; ///< of all segments
    const std::uint8_t* code;
    std::uint32_t* counts;  ///< of each tile: the coordinates that its code selects
    const Index* offsets;   ///< and those of the tiles before
    std::uint64_t* words;   ///< 0 before
    std::uint32_t* corrupt; ///< set if the code is none of these segments and ks
};

/// What a tile's code selects. One block a tile of code.
struct DecodeCount {
    using Arguments = DecodeArguments;
    struct Shared {
        std::uint32_t count;
    };

    template <class Block>
    SCAPE_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Group part = a.tiles[block.index()];
        const Segment segment = a.segments[part.segment];
        const Index begin = part.begin - segment.begin;
        const Index end = part.end - segment.begin;
        block.phase([&](int thread) {
            if (thread == 0)
                shared.count =
                    segment.kind == SegmentCode::nothing ? static_cast<std::uint32_t>(end - begin) : 0U;
        });
        block.phase([&](int thread) {
            std::uint32_t count = 0;
            const std::uint8_t* const code = a.code + segment.code;
            if (segment.kind == SegmentCode::bitmap)
                for (Index byte = begin / 8 + thread; byte * 8 < end; byte += block.threads())
                    count += static_cast<std::uint32_t>(bits_set(code[byte]));
            if (segment.kind == SegmentCode::positions)
                for (Index number = begin / code_block + thread; number * code_block < end;
                     number += block.threads())
                    count += code[number];
            if (count != 0)
                block.add(shared.count, count);
        });
        block.phase([&](int thread) {
            if (thread == 0)
                a.counts[block.index()] = shared.count;
        });
    }
};

/// Sets the bits. One block a tile of code.
struct Decode {
    using Arguments = DecodeArguments;
    struct Shared {
        Scan<Index> scan;
    };

    template <class Block>
    SCAPE_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Group part = a.tiles[block.index()];
        const Segment segment = a.segments[part.segment];
        const Index selected = a.offsets[segment.last_part] - a.offsets[segment.first_part];
        if (selected != segment.k) { // the same in all of its blocks: none reads beyond the code
            block.phase([&](int thread) {
                if (thread == 0)
                    block.set_bits(*a.corrupt, 1U);
            });
            return;
        }
        if (segment.kind == SegmentCode::positions)
            positions(block, shared, a, part, segment);
        else
            block.phase([&](int thread) {
                for (Index word = part.begin / word_bits + thread; word * word_bits < part.end;
                     word += block.threads())
                    bitmap_word(block, a, part, segment, word * word_bits);
            });
    }

  private:
    /// The bits of a word from a bitmap, whose bytes begin where the segment does, or all of them.
    template <class Block>
    SCAPE_BLOCK static void bitmap_word(Block& block, const Arguments& a, const Group& part,
                                        const Segment& segment, Index at) {
        const std::uint64_t own = own_bits(at, part.begin, part.end);
        std::uint64_t bits = own;
        if (segment.kind == SegmentCode::bitmap) {
            const Index begin = greatest(at, part.begin);
            const Index end = least(at + word_bits, part.end);
            bits = 0;
            for (Index byte = (begin - segment.begin) / 8; segment.begin + byte * 8 < end; ++byte) {
                const std::uint64_t eight = a.code[segment.code + byte];
                const Index first = segment.begin + byte * 8;
                bits |= first >= at ? eight << static_cast<unsigned>(first - at)
                                    : eight >> static_cast<unsigned>(at - first);
                if (first + 8 > segment.end && (eight >> static_cast<unsigned>(segment.end - first)) != 0)
                    block.set_bits(*a.corrupt, 1U); // a bit beyond the end
            }
            bits &= own;
        }
        store_bits(block, a.words[at / word_bits], own, bits);
    }

    template <class Block>
    SCAPE_BLOCK static void positions(Block& block, Shared& shared, const Arguments& a, const Group& part,
                                      const Segment& segment) {
        const std::uint8_t* const counts = a.code + segment.code;
        const Index blocks = (segment.end - segment.begin + code_block - 1) / code_block;
        const std::uint8_t* const all = counts + blocks;
        const Index first = (part.begin - segment.begin) / code_block;
        const Index last = (part.end - segment.begin + code_block - 1) / code_block;
        Index base = a.offsets[block.index()] - a.offsets[segment.first_part];
        typename Block::template PerThread<Index> mine(block);
        typename Block::template PerThread<Index> before(block);
        // As many blocks at once as there are threads.
        for (Index round = first; round < last; round += block.threads()) {
            block.phase(
                [&](int thread) { mine[thread] = round + thread < last ? counts[round + thread] : 0; });
            scan(block, shared.scan, mine, before);
            block.phase([&](int thread) {
                if (mine[thread] > 0)
                    one_block(block, a, segment, round + thread, all + base + before[thread], mine[thread]);
            });
            base += shared.scan.total;
        }
    }

    template <class Block>
    SCAPE_BLOCK static void one_block(Block& block, const Arguments& a, const Segment& segment,
                                      Index number, const std::uint8_t* positions, Index count) {
        const Index begin = segment.begin + number * code_block;
        const Index size = least(code_block, segment.end - begin);
        Index previous = -1;
        Index word = begin / word_bits;
        std::uint64_t bits = 0;
        for (Index i = 0; i < count; ++i) {
            const Index position = positions[i];
            if (position <= previous || position >= size) {
                block.set_bits(*a.corrupt, 1U);
                break;
            }
            previous = position;
            const Index at = begin + position;
            if (at / word_bits != word) {
                if (bits != 0)
                    block.set_bits(a.words[word], bits);
                word = at / word_bits;
                bits = 0;
            }
            bits |= std::uint64_t{1} << static_cast<unsigned>(at % word_bits);
        }
        if (bits != 0)
            block.set_bits(a.words[word], bits);
    }
};

} // namespace scape::gpu
