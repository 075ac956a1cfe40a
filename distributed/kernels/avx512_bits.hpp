// The code of positions by AVX-512, with its second set of byte instructions: no branch depends on the
// bits. Included by the variant avx512, within its anonymous namespace, behind bits.hpp.

#define SCAPE_BYTES                                                                                        \
    __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt")))

/// Not every machine with the variant has them; on the others plain code does.
inline bool has_byte_instructions() {
    static const bool has =
        __builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0;
    return has;
}

/// 0, 1 ... 63.
SCAPE_BYTES inline __m512i byte_numbers() {
    alignas(64) std::uint8_t numbers[64];
    for (unsigned i = 0; i < 64; ++i)
        numbers[i] = static_cast<std::uint8_t>(i);
    return _mm512_load_si512(numbers);
}

SCAPE_BYTES void encode_positions_by_bytes(const std::uint64_t* words, Index begin, Index end,
                                           std::uint8_t* counts, std::uint8_t* positions,
                                           const std::uint8_t* positions_end) {
    const __m512i numbers = byte_numbers();
    for (; begin < end; begin += position_block) {
        const std::uint8_t* const first = positions;
        const Index size = position_block < end - begin ? position_block : end - begin;
        for (Index at = 0; at < size; at += word_bits) {
            const std::uint64_t bits =
                bits_at(words, begin + at, word_bits < size - at ? word_bits : size - at);
            const __m512i here = _mm512_maskz_compress_epi8(
                bits, _mm512_add_epi8(numbers, _mm512_set1_epi8(static_cast<char>(at))));
            const Index count = std::popcount(bits);
            // Whole registers, which the next one overwrites, where there is room for them.
            if (positions_end - positions >= word_bits)
                _mm512_storeu_si512(positions, here);
            else
                _mm512_mask_storeu_epi8(positions,
                                        _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(count)), here);
            positions += count;
        }
        *counts++ = static_cast<std::uint8_t>(positions - first);
    }
}

SCAPE_BYTES inline bool counts_to_by_bytes(const std::uint8_t* counts, Index blocks, Index k) {
    __m512i total = _mm512_setzero_si512();
    for (; blocks > 0; blocks -= 64, counts += 64) {
        const __mmask64 there =
            _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(blocks < 64 ? blocks : 64));
        total = _mm512_add_epi64(
            total, _mm512_sad_epu8(_mm512_maskz_loadu_epi8(there, counts), _mm512_setzero_si512()));
    }
    alignas(64) Index sums[8];
    _mm512_store_si512(sums, total);
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7] == k;
}

/// What a segment's words take: each is written once, from the lowest to the highest, so that none is read.
/// The first and the last may have bits of other segments.
struct Pouring {
    SCAPE_BYTES Pouring(Index begin, Index end, std::uint64_t* all)
        : words(all), word(begin / word_bits), current(all[begin / word_bits]), last((end - 1) / word_bits),
          of_others(all[last]) {}
    SCAPE_BYTES void finish() const {
        words[word] = current;
        words[last] |= of_others;
    }
    std::uint64_t* words;
    Index word; ///< that is being filled
    std::uint64_t current;
    Index last;
    std::uint64_t of_others;
};

/// Few positions a block: all of a batch of blocks become coordinates, whichever block they are in, and
/// these go into their words one by one.
SCAPE_BYTES bool decode_few_positions(const std::uint8_t* counts, const std::uint8_t* positions,
                                      Index begin, Index end, std::uint64_t* words) {
    constexpr Index together = 64;
    constexpr Index room = together * position_block + 64;
    alignas(64) std::uint16_t places[room]; // NOLINT: written before it is read
    Pouring to(begin, end, words);
    const __m512i too_large = _mm512_set1_epi16(position_block);
    for (; begin < end; begin += together * position_block) {
        const Index left = (end - begin + position_block - 1) / position_block;
        const Index blocks = left < together ? left : together;
        // The block of each position: as many as there are, and more, which the next block overwrites.
        Index total = 0;
        for (Index block = 0; block < blocks; ++block) {
            const __m128i base = _mm_set1_epi16(static_cast<short>(block * position_block));
            const Index count = *counts++;
            for (Index i = 0; i < count; i += 8)
                _mm_storeu_si128(reinterpret_cast<__m128i*>(places + total + i), base);
            total += count;
        }
        __mmask32 bad = 0;
        for (Index i = 0; i < total; i += 32) {
            const __mmask32 there = _bzhi_u32(~0U, static_cast<unsigned>(total - i < 32 ? total - i : 32));
            const __m512i position = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(there, positions + i));
            bad |= _mm512_mask_cmpge_epu16_mask(there, position, too_large);
            _mm512_storeu_si512(places + i, _mm512_add_epi16(_mm512_loadu_si512(places + i), position));
        }
        for (Index i = 0; i + 1 < total; i += 32) {
            const Index pairs = total - 1 - i;
            const __mmask32 there = _bzhi_u32(~0U, static_cast<unsigned>(pairs < 32 ? pairs : 32));
            bad |= _mm512_mask_cmpge_epu16_mask(there, _mm512_maskz_loadu_epi16(there, places + i),
                                                _mm512_maskz_loadu_epi16(there, places + i + 1));
        }
        if (bad != 0 || (total > 0 && begin + places[total - 1] >= end))
            return false;
        positions += total;
        Index word = to.word;
        std::uint64_t current = to.current;
        for (Index i = 0; i < total; ++i) {
            const Index at = begin + places[i];
            to.words[word] = current;
            current = (at / word_bits == word ? current : 0) | std::uint64_t{1}
                                                                   << static_cast<unsigned>(at % word_bits);
            word = at / word_bits;
        }
        to.word = word;
        to.current = current;
    }
    to.finish();
    return true;
}

/// Of each position the byte of its block's 32 that it is in.
SCAPE_BYTES inline __m256i bytes_of(__m256i positions) {
    return _mm256_and_si256(_mm256_srli_epi16(positions, 3), _mm256_set1_epi8(31));
}

/// 2 to the power of each of 16 bytes that are there, all together.
SCAPE_BYTES inline std::uint32_t any_of(__mmask32 there, __m128i bytes) {
    // Masked also where all count: GCC 12 takes plain intrinsics for a use of something uninitialized.
    const auto lanes = static_cast<__mmask16>(there);
    const __m512i powers =
        _mm512_maskz_sllv_epi32(lanes, _mm512_set1_epi32(1), _mm512_maskz_cvtepu8_epi32(lanes, bytes));
    const __m256i eight = _mm256_or_si256(_mm512_maskz_extracti64x4_epi64(0xf, powers, 0),
                                          _mm512_maskz_extracti64x4_epi64(0xf, powers, 1));
    const __m128i four = _mm_or_si128(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_or_si128(four, _mm_shuffle_epi32(four, 0x4e));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_or_si128(two, _mm_shuffle_epi32(two, 0xb1))));
}

/// The bits of up to 32 ascending positions. A byte of the result is the sum of what its positions, which
/// are neighbours, bring: a difference of sums up to the last of them.
SCAPE_BYTES inline __m256i bits_of(__m256i positions, __m256i following, __mmask32 there) {
    const __m256i powers = _mm256_set1_epi64x(static_cast<long long>(0x8040'2010'0804'0201U));
    const __m256i bytes = bytes_of(positions);
    __m256i sums = _mm256_maskz_permutexvar_epi8(there, positions, powers);
    sums = _mm256_add_epi8(sums, _mm256_slli_si256(sums, 1));
    sums = _mm256_add_epi8(sums, _mm256_slli_si256(sums, 2));
    sums = _mm256_add_epi8(sums, _mm256_slli_si256(sums, 4));
    sums = _mm256_add_epi8(sums, _mm256_slli_si256(sums, 8));
    sums = _mm256_add_epi8(sums, _mm256_maskz_permutexvar_epi8(0xffff'0000U, _mm256_set1_epi8(15), sums));
    // The last of each byte: all behind it are in another one, or not there.
    const __mmask32 ends = there & (_mm256_cmpneq_epi8_mask(bytes, bytes_of(following)) | ~(there >> 1U));
    const __m256i up_to = _mm256_maskz_compress_epi8(ends, sums);
    const __m256i carried = _mm256_permute2x128_si256(up_to, up_to, 0x08); // 0, low half
    const __m256i of_bytes = _mm256_sub_epi8(up_to, _mm256_alignr_epi8(up_to, carried, 15));
    const std::uint32_t taken = any_of(there, _mm256_castsi256_si128(bytes)) |
                                any_of(there >> 16U, _mm256_extracti128_si256(bytes, 1));
    return _mm256_maskz_expand_epi8(taken, of_bytes);
}

/// Many positions a block: each block's 255 bits in a register, shifted to where they belong.
SCAPE_BYTES bool decode_many_positions(const std::uint8_t* counts, const std::uint8_t* positions,
                                       Index begin, Index end, std::uint64_t* words) {
    Pouring to(begin, end, words);
    std::uint64_t current = to.current;
    __mmask32 bad = 0;
    for (Index at = begin; at < end; at += position_block) {
        const Index size = position_block < end - at ? position_block : end - at;
        const __m256i too_large = _mm256_set1_epi8(static_cast<char>(size));
        __m256i bits = _mm256_setzero_si256();
        for (Index left = *counts++;;) {
            const __mmask32 there = _bzhi_u32(~0U, static_cast<unsigned>(left < 32 ? left : 32));
            const __mmask32 followed = _bzhi_u32(~0U, static_cast<unsigned>(left - 1 < 32 ? left - 1 : 32));
            const __m256i here = _mm256_maskz_loadu_epi8(there, positions);
            const __m256i following = _mm256_maskz_loadu_epi8(left > 0 ? followed : 0, positions + 1);
            bad |= _mm256_mask_cmpge_epu8_mask(there, here, too_large) |
                   _mm256_mask_cmpge_epu8_mask(left > 0 ? followed : 0, here, following);
            bits = _mm256_or_si256(bits, bits_of(here, following, there));
            positions += left < 32 ? left : 32;
            left -= 32;
            if (left <= 0)
                break;
        }
        if (bad != 0)
            return false;
        alignas(32) std::uint64_t part[5];
        _mm256_store_si256(reinterpret_cast<__m256i*>(part), bits);
        part[4] = 0;
        const auto shift = static_cast<unsigned>(at % word_bits);
        const Index word = at / word_bits;
        const Index words_here = (at + size - 1) / word_bits - word;
        std::uint64_t shifted[5];
        shifted[0] = current | part[0] << shift;
        for (unsigned i = 1; i < 5; ++i)
            shifted[i] = part[i] << shift | part[i - 1] >> 1U >> (63U - shift);
        if (words_here == 4 || size == position_block) {
            for (unsigned i = 0; i < 3; ++i)
                to.words[word + i] = shifted[i];
            if (words_here >= 4)
                to.words[word + 3] = shifted[3];
        } else {
            for (Index i = 0; i < words_here; ++i)
                to.words[word + i] = shifted[i];
        }
        // The next block begins in the last word of this one, or in the one behind it.
        to.word = word + words_here;
        current = shifted[words_here];
        if ((at + size) % word_bits == 0 && at + size < end) {
            to.words[to.word] = current;
            ++to.word;
            current = 0;
        }
    }
    to.current = current;
    to.finish();
    return true;
}

SCAPE_TARGET void encode_positions(const std::uint64_t* words, Index begin, Index end, std::uint8_t* counts,
                                   std::uint8_t* positions, const std::uint8_t* positions_end) {
    (has_byte_instructions() ? encode_positions_by_bytes
                             : plain_encode_positions)(words, begin, end, counts, positions, positions_end);
}

SCAPE_TARGET bool decode_positions(const std::uint8_t* counts, const std::uint8_t* positions, Index begin,
                                   Index end, Index k, std::uint64_t* words) {
    if (!has_byte_instructions())
        return plain_decode_positions(counts, positions, begin, end, k, words);
    const Index blocks = (end - begin + position_block - 1) / position_block;
    if (!counts_to_by_bytes(counts, blocks, k))
        return false;
    constexpr Index few = 8; // a block, from where on a block by itself is the quicker one
    return (k < few * blocks ? decode_few_positions : decode_many_positions)(counts, positions, begin, end,
                                                                             words);
}
