// The variant for x86 machines with AVX-512, where a packed vector is expanded and compressed in registers:
// no branch depends on the masks. (Compressing to memory is microcode on some machines; compressing to a
// register and a masked store are not.)
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

#include "scalar.hpp"
#include "table.hpp"

// AVX-512 includes fused multiply-add: only -ffp-contract=off keeps the compiler from using it
// (section 5), and the tests notice.
#define TRUESTEP_TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,bmi,bmi2,popcnt")))

namespace truestep::distributed::host {
namespace avx512 {
namespace {

#include "packed.hpp"
// Over the blocks of packed.hpp.
#include "meetings.hpp"

constexpr unsigned group_size = 16; ///< coordinates in a register
constexpr unsigned groups = 4;      ///< in a word

/// Like prefetch_word(), for streams that are read or written little by little.
TRUESTEP_TARGET inline void prefetch_next(const void* stream, std::uintptr_t distance) {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(stream) + distance));
}
constexpr std::uintptr_t next_words = 512;
constexpr std::uintptr_t next_packed = 256;

/// The bits of the 16 coordinates from `begin` on, a multiple of 16.
TRUESTEP_TARGET inline __mmask16 group_bits(const std::uint64_t* words, Index begin) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, reinterpret_cast<const char*>(words) + begin / 8, sizeof bits);
    return bits;
}

TRUESTEP_TARGET inline __mmask16 group_of(std::uint64_t word, unsigned group) {
    return static_cast<__mmask16>(word >> (group_size * group));
}

/// The number of bits in the groups before this one, so that no group waits for the one before it.
TRUESTEP_TARGET inline Index bits_before(std::uint64_t word, unsigned group) {
    return group == 0 ? 0 : std::popcount(word << (word_bits - group_size * group));
}

TRUESTEP_TARGET inline Index count_bits(__mmask16 bits) {
    return std::popcount(static_cast<std::uint32_t>(bits));
}

/// The values of the coordinates with a bit, packed at `packed`; +0 elsewhere. Reads no value without a
/// bit.
TRUESTEP_TARGET inline __m512 expand(__mmask16 bits, const float* packed) {
    return _mm512_maskz_expandloadu_ps(bits, packed);
}

TRUESTEP_TARGET inline void compress(__mmask16 bits, __m512 values, float* packed) {
    const __mmask16 room =
        static_cast<__mmask16>(_bzhi_u32(0xffffU, static_cast<unsigned>(count_bits(bits))));
    _mm512_mask_storeu_ps(packed, room, _mm512_maskz_compress_ps(bits, values));
}

/// The remaining bits of a word from `begin` on, a multiple of 16.
TRUESTEP_TARGET inline std::uint64_t rest_bits(const Mask& mask, Index begin) {
    return mask.words()[static_cast<std::size_t>(begin / word_bits)] >>
           static_cast<unsigned>(begin % word_bits);
}

/// True if a chunk has enough bits for code without branches to pay. With few, most groups have
/// none, and the branch is predicted.
TRUESTEP_TARGET inline bool is_dense(const Mask& mask, Index chunk_begin) {
    constexpr Index few = Mask::chunk / 32;
    const Index chunk_end =
        chunk_begin + Mask::chunk < mask.size() ? chunk_begin + Mask::chunk : mask.size();
    return mask.offset_of_chunk(chunk_end) - mask.offset_of_chunk(chunk_begin) > few;
}

/// Appends a group's candidates. It writes whole registers: what is behind the last candidate is
/// overwritten by the next.
TRUESTEP_TARGET inline Index note_group(__mmask16 inside, __m512i scores, std::uint32_t position,
                                        const Candidates& candidates, Index count) {
    const __m512i in_group = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i here = _mm512_add_epi32(in_group, _mm512_set1_epi32(static_cast<int>(position)));
    _mm512_storeu_si512(candidates.scores + count, _mm512_maskz_compress_epi32(inside, scores));
    _mm512_storeu_si512(candidates.positions + count, _mm512_maskz_compress_epi32(inside, here));
    return count + count_bits(inside);
}

TRUESTEP_TARGET inline __m512i scores_of(__m512 values) {
    return _mm512_and_si512(_mm512_castps_si512(values), _mm512_set1_epi32(greatest_score));
}

/// Watches a word whose c is known.
TRUESTEP_TARGET inline void watch_word(Watch& watch, Index word, const __m512* c) {
    const __m512i above_this = _mm512_set1_epi32(watch.high);
    const __m512i at_least_this = _mm512_set1_epi32(watch.low);
    std::uint64_t above = 0;
    std::uint64_t at_least = 0;
    for (unsigned group = 0; group < groups; ++group) {
        const __m512i scores = scores_of(c[group]);
        above |= static_cast<std::uint64_t>(_mm512_cmpgt_epi32_mask(scores, above_this))
                 << (group_size * group);
        at_least |= static_cast<std::uint64_t>(_mm512_cmpge_epi32_mask(scores, at_least_this))
                    << (group_size * group);
    }
    watch.next[word] = above;
    watch.above += std::popcount(above);
    const std::uint64_t inside = at_least & ~above;
    if (inside == 0 || watch.candidates.count > watch.candidates.capacity)
        return;
    Index count = watch.candidates.count;
    const std::uint32_t position = watch.position + static_cast<std::uint32_t>(word * word_bits);
    for (unsigned group = 0; group < groups; ++group)
        count = note_group(group_of(inside, group), scores_of(c[group]), position + group_size * group,
                           watch.candidates, count);
    watch.candidates.count = count;
}

/// The addresses of whole words of a chunk.
struct LocalWords {
    const float* g;
    const float* e;
    float* kept;
    const std::uint64_t* last;
    const float* m;
    const std::uint64_t* current;
    float* payload;
    Watch* watch = nullptr; ///< of all these words, or nothing
    Index watched = 0;      ///< the first word's number in it
};

/// Whether section 4.1 refuses one of a word's gradients.
TRUESTEP_TARGET inline bool refuses(const float* g) {
    constexpr auto greatest = static_cast<Score>(std::bit_cast<std::uint32_t>(element::greatest_gradient));
    __m512i worst = _mm512_setzero_si512();
    for (unsigned group = 0; group < groups; ++group)
        worst =
            _mm512_mask_max_epi32(worst, 0xffff, worst, scores_of(_mm512_loadu_ps(g + group_size * group)));
    return _mm512_cmpgt_epi32_mask(worst, _mm512_set1_epi32(greatest)) != 0;
}

/// How many words have been done: all, or those before one that is refused.
template <bool last_is_dense, bool current_is_dense, bool watched, bool checks>
TRUESTEP_TARGET inline Index local_words(const Scalars& scalars, Index words, LocalWords& at) {
    const float* g = at.g; // in registers: stored vectors might alias anything, even pointers
    const float* e = at.e;
    float* kept = at.kept;
    const float* m = at.m;
    float* payload = at.payload;
    const std::uint64_t* const last = at.last;
    const std::uint64_t* const current = at.current;
    Watch watch;
    if constexpr (watched)
        watch = *at.watch;
    const __m512 b1 = _mm512_set1_ps(scalars.b1);
    const __m512 a1 = _mm512_set1_ps(scalars.a1);
    Index word = 0;
    for (; word < words; ++word, g += word_bits, e += word_bits, kept += word_bits) {
        if (checks && refuses(g))
            break;
        const std::uint64_t last_word = last[word];
        const std::uint64_t current_word = current[word];
        prefetch_word(g);
        prefetch_word(e);
        prefetch_next(last + word, next_words);
        prefetch_next(current + word, next_words);
        prefetch_next(m, next_packed);
        prefetch_next(payload, next_packed);

        // b1*m; +0 where there is no m, as b1 is not negative.
        __m512 from_m[groups];
        for (unsigned group = 0; group < groups; ++group) {
            from_m[group] = _mm512_setzero_ps();
            const __mmask16 bits = group_of(last_word, group);
            if constexpr (last_is_dense) {
                from_m[group] = _mm512_mul_ps(b1, expand(bits, m + bits_before(last_word, group)));
            } else if (bits != 0) {
                from_m[group] = _mm512_mul_ps(b1, expand(bits, m));
                m += count_bits(bits);
            }
        }
        if constexpr (last_is_dense)
            m += std::popcount(last_word);
        __m512 c[groups];
        for (unsigned group = 0; group < groups; ++group) {
            const __m512 from_g = _mm512_mul_ps(a1, _mm512_loadu_ps(g + group_size * group));
            c[group] = _mm512_add_ps(_mm512_add_ps(from_m[group], from_g),
                                     _mm512_loadu_ps(e + group_size * group));
            float* const residual = kept + group_size * group;
            if constexpr (current_is_dense) {
                const __mmask16 bits = group_of(current_word, group);
                _mm512_storeu_ps(residual, _mm512_maskz_mov_ps(_knot_mask16(bits), c[group]));
                compress(bits, c[group], payload + bits_before(current_word, group));
            } else {
                _mm512_storeu_ps(residual, c[group]);
            }
        }
        if constexpr (watched)
            watch_word(watch, at.watched + word, c);
        if constexpr (current_is_dense)
            payload += std::popcount(current_word);
        else
            for (std::uint64_t bits = current_word; bits != 0; bits &= bits - 1) {
                float& residual = kept[std::countr_zero(bits)];
                *payload++ = residual;
                residual = 0.0F;
            }
    }
    if constexpr (watched)
        *at.watch = watch;
    at = {g, e, kept, last + word, m, current + word, payload, at.watch, at.watched};
    return word;
}

template <bool watched, bool checks>
TRUESTEP_TARGET inline auto local_words_for(bool last_is_dense, bool current_is_dense) {
    return last_is_dense ? (current_is_dense ? local_words<true, true, watched, checks>
                                             : local_words<true, false, watched, checks>)
                         : (current_is_dense ? local_words<false, true, watched, checks>
                                             : local_words<false, false, watched, checks>);
}

TRUESTEP_TARGET Index local_pass(const Scalars& scalars, Index begin, Index end, const LocalPass& pass) {
    LocalWords at{pass.g + begin,
                  pass.e + begin,
                  pass.kept + begin,
                  pass.last.words() + begin / word_bits,
                  pass.m + pass.last.offset_of_chunk(begin),
                  pass.current.words() + begin / word_bits,
                  pass.payload + pass.current.offset_of_chunk(begin)};
    std::span<Watch> watches = pass.watches;
    while (begin < end) {
        const Index chunk_end = begin + Mask::chunk < end ? begin + Mask::chunk : end;
        const bool last_is_dense = is_dense(pass.last, begin);
        const bool current_is_dense = is_dense(pass.current, begin);
        // From here to the begin or end of a watch.
        while (begin + word_bits <= chunk_end) {
            at.watch = watch_at(watches, begin);
            Index until = chunk_end - (chunk_end - begin) % word_bits;
            if (at.watch != nullptr) {
                at.watched = (begin - at.watch->begin) / word_bits;
                until = at.watch->end < until ? at.watch->end : until;
            } else if (!watches.empty() && watches.front().begin < until) {
                until = watches.front().begin;
            }
            const auto words =
                at.watch != nullptr
                    ? (pass.checks ? local_words_for<true, true> : local_words_for<true, false>)
                    : (pass.checks ? local_words_for<false, true> : local_words_for<false, false>);
            begin += word_bits *
                     words(last_is_dense, current_is_dense)(scalars, (until - begin) / word_bits, at);
            if (begin < until)
                return first_unacceptable(pass.g, begin, until);
        }
        if (begin < chunk_end) {
            if (const Index refused =
                    pass.checks ? first_unacceptable(pass.g, begin, chunk_end) : chunk_end;
                refused < chunk_end)
                return refused;
            local_rest(scalars, chunk_end - begin, at.g, at.e, at.kept, *at.last, at.m, *at.current,
                       at.payload);
            begin = chunk_end;
        }
    }
    return end;
}

TRUESTEP_TARGET void extract(Index begin, Index end, float* e, const Mask& current, float* payload) {
    payload += current.offset_of_chunk(begin);
    for (; begin + group_size <= end; begin += group_size) {
        const __mmask16 bits = group_bits(current.words(), begin);
        if (bits == 0)
            continue;
        const __m512 c = _mm512_loadu_ps(e + begin);
        _mm512_mask_storeu_ps(e + begin, bits, _mm512_setzero_ps());
        compress(bits, c, payload);
        payload += count_bits(bits);
    }
    if (begin < end)
        extract_rest(end - begin, e + begin, rest_bits(current, begin), payload);
}

/// Repacks a word with at most 16 values on either mask: those that both have are compressed and
/// expanded at once.
TRUESTEP_TARGET inline void repack_few(std::uint64_t last, const float* m, std::uint64_t current,
                                       float* to) {
    const auto there =
        static_cast<__mmask16>(_bzhi_u32(0xffffU, static_cast<unsigned>(std::popcount(last))));
    const auto room =
        static_cast<__mmask16>(_bzhi_u32(0xffffU, static_cast<unsigned>(std::popcount(current))));
    const __m512 both = _mm512_maskz_compress_ps(static_cast<__mmask16>(_pext_u64(current, last)),
                                                 _mm512_maskz_loadu_ps(there, m));
    _mm512_mask_storeu_ps(to, room,
                          _mm512_maskz_expand_ps(static_cast<__mmask16>(_pext_u64(last, current)), both));
}

TRUESTEP_TARGET void repack(Index begin, Index end, const Mask& last, const float* m, const Mask& current,
                            float* m_on_current) {
    for (; begin + word_bits <= end; begin += word_bits) {
        const std::uint64_t last_word = rest_bits(last, begin);
        const std::uint64_t word = rest_bits(current, begin);
        const Index before = std::popcount(last_word);
        const Index count = std::popcount(word);
        if (before <= static_cast<Index>(group_size) && count <= static_cast<Index>(group_size)) {
            repack_few(last_word, m, word, m_on_current); // also for none: a branch would mispredict
        } else {
            for (unsigned group = 0; group < groups; ++group)
                compress(group_of(word, group),
                         expand(group_of(last_word, group), m + bits_before(last_word, group)),
                         m_on_current + bits_before(word, group));
        }
        m += before;
        m_on_current += count;
    }
    if (begin < end)
        repack_word(rest_bits(last, begin), m, rest_bits(current, begin), m_on_current);
}

/// Keeps the greatest score of the parameters seen so far.
TRUESTEP_TARGET inline __m512i greater_score(__m512i worst, __mmask16 counted, __m512 parameters) {
    const __m512i scores =
        _mm512_and_si512(_mm512_castps_si512(parameters), _mm512_set1_epi32(greatest_score));
    // Masked even where all count: GCC 12 takes the plain intrinsic for a use of something uninitialized.
    return _mm512_mask_max_epi32(worst, counted, worst, scores);
}

template <bool current_is_dense>
TRUESTEP_TARGET inline void update_words(const Scalars& scalars, Index words, float* w,
                                         const std::uint64_t* current, const float*& all_u,
                                         __m512i& all_worst, Score& worst_selected) {
    const Scalars s = scalars;
    const float* u = all_u;
    __m512i worst = all_worst;
    const __m512 decay = _mm512_set1_ps(s.decay);
    const __m512 learning_rate = _mm512_set1_ps(s.learning_rate);
    constexpr __mmask16 all = 0xffff;
    for (Index word = 0; word < words; ++word, w += word_bits) {
        const std::uint64_t current_word = current[word];
        prefetch_word(w);
        prefetch_next(current + word, next_words);
        prefetch_next(u, next_packed);
        for (unsigned group = 0; group < groups; ++group) {
            float* const parameters = w + group_size * group;
            __m512 result = _mm512_mul_ps(_mm512_loadu_ps(parameters), decay);
            if constexpr (current_is_dense) {
                const __mmask16 bits = group_of(current_word, group);
                result = _mm512_mask_sub_ps(
                    result, bits, result,
                    _mm512_mul_ps(learning_rate, expand(bits, u + bits_before(current_word, group))));
            }
            _mm512_storeu_ps(parameters, result);
            worst = greater_score(worst, all, result);
        }
        if constexpr (current_is_dense)
            u += std::popcount(current_word);
        else
            for (std::uint64_t bits = current_word; bits != 0; bits &= bits - 1) {
                float& parameter = w[std::countr_zero(bits)];
                parameter = element::update(s, parameter, *u++);
                const Score score = score_of(parameter);
                worst_selected = score > worst_selected ? score : worst_selected;
            }
    }
    all_u = u;
    all_worst = worst;
}

/// The update without decay, of selected coordinates only.
TRUESTEP_TARGET inline void update_selected(const Scalars& scalars, Index words, float* w,
                                            const std::uint64_t* current, const float*& u, __m512i& worst) {
    const __m512 learning_rate = _mm512_set1_ps(scalars.learning_rate);
    for (Index begin = 0; begin < words * word_bits; begin += group_size) {
        const __mmask16 bits = group_bits(current, begin);
        if (bits == 0)
            continue;
        const __m512 change = _mm512_mul_ps(learning_rate, expand(bits, u));
        const __m512 result = _mm512_sub_ps(_mm512_loadu_ps(w + begin), change);
        _mm512_mask_storeu_ps(w + begin, bits, result);
        worst = greater_score(worst, bits, result);
        u += count_bits(bits);
    }
}

TRUESTEP_TARGET bool update(const Scalars& scalars, Index begin, Index end, float* w, const Mask& current,
                            const float* u) {
    constexpr Score infinity = 0x7f80'0000;
    bool finite = true;
    while (begin < end) {
        const Index chunk_end = begin + Mask::chunk < end ? begin + Mask::chunk : end;
        const Index words = (chunk_end - begin) / word_bits;
        const std::uint64_t* const current_words = current.words() + begin / word_bits;
        __m512i worst = _mm512_setzero_si512();
        Score worst_selected = 0;
        if (scalars.decay == 1.0F) // multiplying by 1 changes no bit
            update_selected(scalars, words, w + begin, current_words, u, worst);
        else if (is_dense(current, begin))
            update_words<true>(scalars, words, w + begin, current_words, u, worst, worst_selected);
        else
            update_words<false>(scalars, words, w + begin, current_words, u, worst, worst_selected);
        finite = finite && worst_selected < infinity &&
                 _mm512_cmpge_epi32_mask(worst, _mm512_set1_epi32(infinity)) == 0;
        begin += words * word_bits;
        if (begin < chunk_end) {
            finite = update_rest(scalars, chunk_end - begin, w + begin, current_words[words], u) && finite;
            begin = chunk_end;
        }
    }
    return finite;
}

/// The scores of a word's groups; advances `payload` by the word's values.
TRUESTEP_TARGET inline void score_word(const float* e, std::uint64_t current, const float*& payload,
                                       __m512i* scores) {
    const float* const packed = payload;
    for (unsigned group = 0; group < groups; ++group) {
        const __m512 c =
            _mm512_mask_expandloadu_ps(_mm512_loadu_ps(e + group_size * group), group_of(current, group),
                                       packed + bits_before(current, group));
        scores[group] = scores_of(c);
    }
    payload = packed + std::popcount(current);
}

TRUESTEP_TARGET void score_words(const CandidateSource& source, Index words, Score* scores) {
    const float* e = source.e;
    const float* payload = source.payload;
    for (Index word = 0; word < words; ++word, e += word_bits, scores += word_bits) {
        __m512i parts[groups];
        score_word(e, source.current[word], payload, parts);
        for (unsigned group = 0; group < groups; ++group)
            _mm512_storeu_si512(scores + group_size * group, parts[group]);
    }
}

TRUESTEP_TARGET void between(const Score* scores, Score low, Score high, std::uint64_t& above,
                             std::uint64_t& inside) {
    const __m512i above_this = _mm512_set1_epi32(high);
    const __m512i at_least_this = _mm512_set1_epi32(low);
    above = 0;
    inside = 0;
    for (Index begin = 0; begin < word_bits; begin += group_size) {
        const __m512i part = _mm512_loadu_si512(scores + begin);
        const __mmask16 above_bits = _mm512_cmpgt_epi32_mask(part, above_this);
        const __mmask16 at_least_bits = _mm512_cmpge_epi32_mask(part, at_least_this);
        above |= static_cast<std::uint64_t>(above_bits) << static_cast<unsigned>(begin);
        inside |= static_cast<std::uint64_t>(at_least_bits) << static_cast<unsigned>(begin);
    }
    inside &= ~above;
}

TRUESTEP_TARGET Index bracket(const CandidateSource& source, Index words, std::uint32_t position, Score low,
                              Score high, std::uint64_t* next, Candidates& candidates) {
    const __m512i above_this = _mm512_set1_epi32(high);
    const __m512i at_least_this = _mm512_set1_epi32(low);
    const float* e = source.e;
    const std::uint64_t* const current = source.current;
    const float* payload = source.payload;
    const Index capacity = candidates.capacity;
    Index count = candidates.count;
    Index total = 0;
    for (Index word = 0; word < words && count <= capacity; ++word, e += word_bits, position += word_bits) {
        prefetch_word(e);
        prefetch_next(current + word, next_words);
        prefetch_next(payload, next_packed);
        __m512i parts[groups];
        score_word(e, current[word], payload, parts);
        std::uint64_t above = 0;
        for (unsigned group = 0; group < groups; ++group) {
            const __mmask16 above_bits = _mm512_cmpgt_epi32_mask(parts[group], above_this);
            const __mmask16 at_least_bits = _mm512_cmpge_epi32_mask(parts[group], at_least_this);
            above |= static_cast<std::uint64_t>(above_bits) << (group_size * group);
            count = note_group(_kandn_mask16(above_bits, at_least_bits), parts[group],
                               position + group_size * group, candidates, count);
        }
        next[word] = above;
        total += std::popcount(above);
    }
    candidates.count = count;
    return total;
}

#include "bits.hpp"
// Over those.
#include "avx512_bits.hpp"

} // namespace
} // namespace avx512

const Table avx512_table{.first_unacceptable = avx512::first_unacceptable,
                         .local_pass = avx512::local_pass,
                         .extract = avx512::extract,
                         .repack = avx512::repack,
                         .fold = avx512::fold,
                         .to_bf16 = avx512::to_bf16,
                         .fold_bf16 = avx512::fold_bf16,
                         .to_e5m2 = avx512::to_e5m2,
                         .fold_e5m2 = avx512::fold_e5m2,
                         .greatest_score_of = avx512::greatest_score_of,
                         .reconstruct = avx512::reconstruct,
                         .square_sums = avx512::square_sums,
                         .clip = avx512::clip,
                         .directions = avx512::directions,
                         .update = avx512::update,
                         .dense = avx512::dense,
                         .finite = avx512::finite,
                         .inner = avx512::inner,
                         .drift = avx512::drift,
                         .gossip = avx512::gossip,
                         .score_words = avx512::score_words,
                         .count_at_least = avx512::count_at_least,
                         .between = avx512::between,
                         .bracket = avx512::bracket,
                         .count_words = avx512::count_set,
                         .count_common = avx512::count_common,
                         .encode_bitmap = avx512::encode_bitmap,
                         .decode_bitmap = avx512::decode_bitmap,
                         .encode_positions = avx512::encode_positions,
                         .decode_positions = avx512::decode_positions};

} // namespace truestep::distributed::host

#endif
