// The variant for x86 machines with AVX2. The loops are those of the plain variant; the bits of
// comparisons, a word's packed values and the code of positions have vector code without branches, by
// tables.
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

/// Which scores of a word are above `high`, and which from `low` to `high`.
TRUESTEP_TARGET void between(const Score* scores, Score low, Score high, std::uint64_t& above,
                             std::uint64_t& inside) {
    const __m256i above_this = _mm256_set1_epi32(high);
    const __m256i at_least_this = _mm256_set1_epi32(low - 1);
    above = 0;
    inside = 0;
    for (unsigned i = 0; i < 64; i += 8) {
        __m256i part;
        std::memcpy(&part, scores + i, sizeof part);
        const __m256i is_above = _mm256_cmpgt_epi32(part, above_this);
        const __m256i is_inside = _mm256_andnot_si256(is_above, _mm256_cmpgt_epi32(part, at_least_this));
        const int above_bits = _mm256_movemask_ps(_mm256_castsi256_ps(is_above));
        const int inside_bits = _mm256_movemask_ps(_mm256_castsi256_ps(is_inside));
        above |= static_cast<std::uint64_t>(static_cast<unsigned>(above_bits)) << i;
        inside |= static_cast<std::uint64_t>(static_cast<unsigned>(inside_bits)) << i;
    }
}

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

/// The number of bits before `place`, so that no group waits for the one before it.
TRUESTEP_TARGET inline Index bits_before(std::uint64_t word, Index place) {
    return place == 0 ? 0 : std::popcount(word << static_cast<unsigned>(word_bits - place));
}

// Over the blocks of packed.hpp.
#include "bits.hpp"
#include "meetings.hpp"
#include "words.hpp"

/// Whether whole registers may be read or written from a word's first packed value on.
inline bool is_far(const float* packed, const float* end) {
    return end - packed >= word_bits + group_size;
}

TRUESTEP_TARGET inline __m256i scores_of(__m256 values) {
    return _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(greatest_score));
}

/// Whether one of the scores is above `limit`.
TRUESTEP_TARGET inline bool exceed(__m256i scores, Score limit) {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(scores, _mm256_set1_epi32(limit))) != 0;
}

/// The values of eight places of a word, +0 where a bit is missing. Reads a whole register.
TRUESTEP_TARGET inline __m256 expanded(std::uint64_t word, Index place, const float* packed) {
    const __m256i moves = moves_of(to_places, word, place);
    const __m256 here = _mm256_loadu_ps(packed + bits_before(word, place));
    return _mm256_andnot_ps(absent(moves), _mm256_permutevar8x32_ps(here, moves));
}

/// `factor` times these values; +0, whatever the factor is, where a bit is missing.
TRUESTEP_TARGET inline __m256 scaled(__m256 factor, std::uint64_t word, Index place, const float* packed) {
    const __m256i moves = moves_of(to_places, word, place);
    const __m256 here = _mm256_loadu_ps(packed + bits_before(word, place));
    return _mm256_andnot_ps(absent(moves), _mm256_mul_ps(factor, _mm256_permutevar8x32_ps(here, moves)));
}

TRUESTEP_TARGET Index repack_words(Index words, const std::uint64_t* last, const float*& all_m,
                                   const float* m_end, const std::uint64_t* current, float*& all_packed,
                                   const float* packed_end) {
    constexpr int few =
        3; // selected values of a word, whose number is not asked for: it is hard to predict
    const float* m = all_m;
    float* packed = all_packed;
    Index word = 0;
    for (; word < words && is_far(m, m_end); ++word) {
        const std::uint64_t from = last[word];
        const std::uint64_t to = current[word];
        const int count = std::popcount(to);
        if (packed_end - packed < (count > few ? count + group_size : few))
            break;
        if (count > few) {
            for (Index place = 0; place < word_bits; place += group_size) {
                const __m256 values = expanded(from, place, m);
                _mm256_storeu_ps(packed + bits_before(to, place),
                                 _mm256_permutevar8x32_ps(values, moves_of(to_packed, to, place)));
            }
        } else {
            std::uint64_t left = to;
            for (int i = 0; i < few; ++i, left &= left - 1) {
                const std::uint64_t bit = left & (~left + 1);
                std::uint32_t value = std::bit_cast<std::uint32_t>(m[std::popcount(from & (bit - 1))]);
                value &= 0U - static_cast<std::uint32_t>((from & bit) != 0);
                packed[i] = std::bit_cast<float>(value);
            }
        }
        m += std::popcount(from);
        packed += count;
    }
    all_m = m;
    all_packed = packed;
    return word;
}

template <bool watched, bool checks>
TRUESTEP_TARGET inline void local_words_for(const Scalars& s, const LocalPass& pass, Index words,
                                            LocalPlace& at) {
    constexpr auto greatest = static_cast<Score>(std::bit_cast<std::uint32_t>(element::greatest_gradient));
    // In registers, for what is stored may be anything.
    const float* g = pass.g + at.begin;
    const float* e = pass.e + at.begin;
    float* kept = pass.kept + at.begin;
    const std::uint64_t* const last = pass.last.words() + at.begin / word_bits;
    const std::uint64_t* const current = pass.current.words() + at.begin / word_bits;
    const float* m = at.m;
    const float* const m_end = at.m_end;
    float* payload = at.payload;
    const float* const payload_end = at.payload_end;
    const __m256 b1 = _mm256_set1_ps(s.b1);
    const __m256 a1 = _mm256_set1_ps(s.a1);
    Index word = 0;
    for (; word < words && is_far(m, m_end) && is_far(payload, payload_end);
         ++word, g += word_bits, e += word_bits, kept += word_bits) {
        prefetch_word(g, ahead);
        prefetch_word(e, ahead);
        if constexpr (checks) {
            __m256i worst = _mm256_setzero_si256();
            for (Index place = 0; place < word_bits; place += group_size)
                worst = _mm256_max_epi32(worst, scores_of(_mm256_loadu_ps(g + place)));
            if (exceed(worst, greatest))
                break;
        }
        float all[word_bits];
        const std::uint64_t from = last[word];
        const std::uint64_t to = current[word];
        for (Index place = 0; place < word_bits; place += group_size) {
            const __m256 from_m = scaled(b1, from, place, m);
            const __m256 from_g = _mm256_mul_ps(a1, _mm256_loadu_ps(g + place));
            const __m256 c = _mm256_add_ps(_mm256_add_ps(from_m, from_g), _mm256_loadu_ps(e + place));
            if constexpr (watched)
                _mm256_storeu_ps(all + place, c);
            // What is behind the word's values is for later coordinates.
            const __m256i moves = moves_of(to_packed, to, place);
            _mm256_storeu_ps(payload + bits_before(to, place), _mm256_permutevar8x32_ps(c, moves));
            _mm256_storeu_ps(kept + place, _mm256_and_ps(absent(moves), c));
        }
        if constexpr (watched)
            watch_word(*at.watch, at.begin + word * word_bits, all);
        m += std::popcount(from);
        payload += std::popcount(to);
    }
    at.begin += word * word_bits;
    at.m = m;
    at.payload = payload;
}

TRUESTEP_TARGET void local_words(const Scalars& s, const LocalPass& pass, Index words, LocalPlace& at) {
    if (at.watch != nullptr)
        (pass.checks ? local_words_for<true, true> : local_words_for<true, false>)(s, pass, words, at);
    else
        (pass.checks ? local_words_for<false, true> : local_words_for<false, false>)(s, pass, words, at);
}

TRUESTEP_TARGET Index update_words(const Scalars& s, Index words, float* all_w,
                                   const std::uint64_t* current, const float*& all_u, const float* u_end,
                                   Score& worst) {
    constexpr int few = 2; // bits that are visited one by one in less time
    float* w = all_w;
    const float* u = all_u;
    const __m256 decay = _mm256_set1_ps(s.decay);
    const __m256 learning_rate = _mm256_set1_ps(s.learning_rate);
    __m256i greatest = _mm256_setzero_si256();
    Index word = 0;
    for (; word < words && is_far(u, u_end); ++word, w += word_bits) {
        prefetch_word(w, ahead);
        const std::uint64_t bits = current[word];
        if (std::popcount(bits) > few) {
            for (Index place = 0; place < word_bits; place += group_size) {
                // Less +0 every value stays what it is.
                const __m256 change = scaled(learning_rate, bits, place, u);
                const __m256 result =
                    _mm256_sub_ps(_mm256_mul_ps(_mm256_loadu_ps(w + place), decay), change);
                _mm256_storeu_ps(w + place, result);
                greatest = _mm256_max_epi32(greatest, scores_of(result));
            }
        } else {
            for (Index place = 0; place < word_bits; place += group_size) {
                const __m256 result = _mm256_mul_ps(_mm256_loadu_ps(w + place), decay);
                _mm256_storeu_ps(w + place, result);
                greatest = _mm256_max_epi32(greatest, scores_of(result));
            }
            const Score of_bits = update_word(s, bits, w, u);
            worst = of_bits > worst ? of_bits : worst;
        }
        u += std::popcount(bits);
    }
    all_u = u;
    alignas(32) Score each[group_size];
    _mm256_store_si256(reinterpret_cast<__m256i*>(each), greatest);
    for (const Score score : each)
        worst = score > worst ? score : worst;
    return word;
}

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

const Table avx2_table{.first_unacceptable = avx2::first_unacceptable,
                       .local_pass = avx2::local_pass,
                       .extract = avx2::extract,
                       .repack = avx2::repack,
                       .fold = avx2::fold,
                       .to_bf16 = avx2::to_bf16,
                       .fold_bf16 = avx2::fold_bf16,
                       .to_e5m2 = avx2::to_e5m2,
                       .fold_e5m2 = avx2::fold_e5m2,
                       .greatest_score_of = avx2::greatest_score_of,
                       .reconstruct = avx2::reconstruct,
                       .square_sums = avx2::square_sums,
                       .clip = avx2::clip,
                       .directions = avx2::directions,
                       .update = avx2::update,
                       .dense = avx2::dense,
                       .finite = avx2::finite,
                       .inner = avx2::inner,
                       .drift = avx2::drift,
                       .gossip = avx2::gossip,
                       .score_words = avx2::score_words,
                       .count_at_least = avx2::count_at_least,
                       .between = avx2::between,
                       .bracket = avx2::bracket,
                       .count_words = avx2::count_words,
                       .count_common = avx2::count_common,
                       .encode_bitmap = avx2::encode_bitmap,
                       .decode_bitmap = avx2::decode_bitmap,
                       .encode_positions = avx2::encode_positions,
                       .decode_positions = avx2::decode_positions};

} // namespace truestep::distributed::host

#endif
