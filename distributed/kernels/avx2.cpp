// The variant for x86 machines with AVX2: what registers.hpp needs of eight values, by tables of
// permutations, and the code of positions without branches.
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

#include "scalar.hpp"
#include "table.hpp"

// Without FMA and everything else that AVX2 does not imply: no multiplication can be contracted
// here.
#define TRUESTEP_TARGET __attribute__((target("avx2,bmi,popcnt")))

namespace truestep::distributed::host {
namespace avx2 {
namespace {

#include "packed.hpp"

constexpr Index group_size = 8;        ///< coordinates in a register
constexpr std::uintptr_t ahead = 2048; ///< of the streams, in bytes; measured on Zen 3

/// For each eight bits of a mask, what moves eight values between their places and a packed vector: a byte
/// a lane, with its highest bit in the lanes of places without a value.
struct Moves {
    /// The lowest bits are the numbers of the places' values, or else the places of the values by number.
    constexpr explicit Moves(bool to_places) {
        for (unsigned bits = 0; bits < 256; ++bits) {
            std::uint8_t count = 0;
            for (std::uint8_t place = 0; place < 8; ++place) {
                const bool there = (bits >> place & 1U) != 0;
                bytes[bits][place] |= there ? 0 : 0x80;
                if (!there)
                    continue;
                bytes[bits][to_places ? place : count] |= to_places ? count : place;
                ++count;
            }
        }
    }
    std::uint8_t bytes[256][group_size]{};
};
alignas(64) constexpr Moves to_places(true);
alignas(64) constexpr Moves to_packed(false);

/// The moves of the eight places from `place` on: a permutation reads their lowest bits, absent() the
/// highest.
TRUESTEP_TARGET inline __m256i moves_of(const Moves& moves, std::uint64_t word, Index place) {
    const auto* const bytes = moves.bytes[word >> static_cast<unsigned>(place) & 0xffU];
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
}
TRUESTEP_TARGET inline __m256 absent(__m256i moves) {
    return _mm256_castsi256_ps(_mm256_srai_epi32(moves, 31));
}

using Floats = __m256;
using Scores = __m256i;

TRUESTEP_TARGET inline Floats all_of(float value) {
    return _mm256_set1_ps(value);
}
TRUESTEP_TARGET inline Scores scores_of(Floats values) {
    return _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(greatest_score));
}
TRUESTEP_TARGET inline Scores greater_of(Scores a, Scores b) {
    return _mm256_max_epi32(a, b);
}
TRUESTEP_TARGET inline std::uint64_t above(Scores scores, Score limit) {
    const __m256i is_above = _mm256_cmpgt_epi32(scores, _mm256_set1_epi32(limit));
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(is_above)));
}
TRUESTEP_TARGET inline Floats expanded(std::uint64_t word, Index place, Floats packed) {
    const __m256i moves = moves_of(to_places, word, place);
    return _mm256_andnot_ps(absent(moves), _mm256_permutevar8x32_ps(packed, moves));
}
TRUESTEP_TARGET inline Floats compressed(std::uint64_t word, Index place, Floats values) {
    return _mm256_permutevar8x32_ps(values, moves_of(to_packed, word, place));
}
TRUESTEP_TARGET inline Floats left_of(std::uint64_t word, Index place, Floats values) {
    return _mm256_and_ps(absent(moves_of(to_packed, word, place)), values);
}

#include "bits.hpp"
#include "meetings.hpp"
#include "words.hpp"
// Over those.
#include "registers.hpp"

/// For each position of a block the block's words with its bit alone; none for the 256th, which no block
/// has.
struct PositionBits {
    constexpr PositionBits() {
        for (unsigned i = 0; i < position_block; ++i)
            words[i][i / word_bits] = std::uint64_t{1} << (i % word_bits);
    }
    std::uint64_t words[position_block + 1][4]{};
};
alignas(64) constexpr PositionBits position_bits;

TRUESTEP_TARGET inline __m256i bits_of(std::uint64_t position) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(position_bits.words[position]));
}

/// The words of one whole block, without a branch if it has no more than 8 * `groups` positions. Reads 32
/// positions beyond its last one. Sets bits of `bad` if they do not ascend or exceed the block.
template <int groups>
TRUESTEP_TARGET inline __m256i block_bits(const std::uint8_t* positions, Index count, __m256i& bad) {
    constexpr Index step = Index{8} * groups;
    const __m256i numbers = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
                                             18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    const __m256i none = _mm256_set1_epi8(-1);
    __m256i bits = _mm256_setzero_si256();
    __m256i others = bits;
    do {
        const __m256i here = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(positions));
        const __m256i next = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(positions + 1));
        const auto there = static_cast<char>(count < 127 ? count : 127);
        const __m256i is_there = _mm256_cmpgt_epi8(_mm256_set1_epi8(there), numbers);
        // All but the last one have a next one in their block.
        const __m256i has_next = _mm256_cmpgt_epi8(_mm256_set1_epi8(static_cast<char>(there - 1)), numbers);
        const __m256i descends =
            _mm256_and_si256(has_next, _mm256_cmpeq_epi8(_mm256_max_epu8(here, next), here));
        const __m256i exceeds = _mm256_and_si256(is_there, _mm256_cmpeq_epi8(here, none));
        bad = _mm256_or_si256(bad, _mm256_or_si256(descends, exceeds));
        alignas(32) std::uint64_t eights[4];
        _mm256_store_si256(reinterpret_cast<__m256i*>(eights),
                           _mm256_or_si256(here, _mm256_andnot_si256(is_there, none)));
        for (int group = 0; group < groups; ++group)
            for (unsigned i = 0; i < 64; i += 16) {
                // Two, so that not every position waits for the one before it.
                bits = _mm256_or_si256(bits, bits_of(eights[group] >> i & 0xffU));
                others = _mm256_or_si256(others, bits_of(eights[group] >> (i + 8) & 0xffU));
            }
        positions += step;
        count -= step;
    } while (count > 0);
    return _mm256_or_si256(bits, others);
}

/// Decodes whole blocks as long as nothing is touched beyond the segment, and returns how many.
template <int groups>
TRUESTEP_TARGET Index decode_blocks(const std::uint8_t* counts, const std::uint8_t*& positions,
                                    const std::uint8_t* positions_end, Index begin, Index end,
                                    std::uint64_t* words, bool& is_good) {
    auto* bytes = reinterpret_cast<char*>(words) + begin / 8;
    int shift = static_cast<int>(begin % 8);
    // The bits before the segment in its first byte.
    auto carried = static_cast<long long>(static_cast<unsigned char>(*bytes)) & ((1 << shift) - 1);
    __m256i bad = _mm256_setzero_si256();
    Index blocks = 0;
    for (; end - begin >= 2 * position_block && positions_end - positions >= position_block + 64;
         begin += position_block, ++blocks) {
        const Index count = counts[blocks];
        const __m256i bits = block_bits<groups>(positions, count, bad);
        positions += count;
        // Each word gets what is shifted out of the one before.
        const __m256i up = _mm256_sll_epi64(bits, _mm_cvtsi32_si128(shift));
        const __m256i out =
            _mm256_permute4x64_epi64(_mm256_srl_epi64(bits, _mm_cvtsi32_si128(64 - shift)), 0x93);
        const __m256i in = _mm256_blend_epi32(out, _mm256_zextsi128_si256(_mm_cvtsi64_si128(carried)), 3);
        const __m256i all = _mm256_or_si256(up, in);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes), all);
        // A block is a bit shorter than four words.
        const auto last = static_cast<std::uint64_t>(_mm256_extract_epi64(bits, 3));
        if (shift == 0) {
            carried = static_cast<long long>(last >> 56U);
            bytes += 31;
            shift = 7;
        } else {
            carried = static_cast<long long>(last >> (64U - static_cast<unsigned>(shift)));
            bytes += 32;
            --shift;
        }
    }
    is_good = _mm256_testz_si256(bad, bad) != 0;
    if (blocks > 0) {
        std::uint64_t word = static_cast<std::uint64_t>(carried)
                             << static_cast<unsigned>(begin / 8 % 8 * 8);
        std::memcpy(&word, words + begin / word_bits, static_cast<std::size_t>(begin / 8 % 8));
        words[begin / word_bits] = word;
    }
    return blocks;
}

TRUESTEP_TARGET bool decode_positions(const std::uint8_t* counts, const std::uint8_t* positions,
                                      Index begin, Index end, Index k, std::uint64_t* words) {
    const Index blocks = (end - begin + position_block - 1) / position_block;
    if (!counts_to(counts, blocks, k))
        return false;
    const std::uint8_t* const positions_end = positions + k;
    bool is_good = true;
    const Index done =
        (k < 5 * blocks ? decode_blocks<1> : decode_blocks<4>)(counts, positions, positions_end, begin, end,
                                                               words, is_good);
    return is_good && decode_each(counts + done, positions, begin + done * position_block, end, words);
}

/// Encodes whole blocks without a branch on their bits, as long as eight positions may be written at a
/// time.
TRUESTEP_TARGET void encode_positions(const std::uint64_t* words, Index begin, Index end,
                                      std::uint8_t* counts, std::uint8_t* positions,
                                      const std::uint8_t* positions_end) {
    constexpr std::uint64_t each = 0x0101'0101'0101'0101U;
    const bool has_many = positions_end - positions > 10 * ((end - begin) / position_block);
    for (; has_many && end - begin >= position_block &&
           positions_end - positions >= position_block + group_size;
         begin += position_block) {
        const std::uint8_t* const first = positions;
        for (Index at = 0; at < position_block; at += word_bits) {
            const Index count = word_bits < position_block - at ? word_bits : position_block - at;
            const std::uint64_t bits = bits_at(words, begin + at, count);
            for (Index place = 0; place < word_bits; place += group_size) {
                std::uint64_t eight = 0;
                std::memcpy(&eight, to_packed.bytes[bits >> static_cast<unsigned>(place) & 0xffU],
                            sizeof eight);
                eight = (eight & 7 * each) + static_cast<std::uint64_t>(at + place) * each;
                std::memcpy(positions + bits_before(bits, place), &eight, sizeof eight);
            }
            positions += std::popcount(bits);
        }
        *counts++ = static_cast<std::uint8_t>(positions - first);
    }
    plain_encode_positions(words, begin, end, counts, positions, positions_end);
}

} // namespace
} // namespace avx2

const Table avx2_table =
    avx2::table_with(avx2::count_words, avx2::encode_positions, avx2::decode_positions);

} // namespace truestep::distributed::host

#endif
