// The code of positions with AVX-512's byte instructions: no branch depends on a position. Included
// by the variant avx512, within its anonymous namespace, behind bits.hpp.
//
// Blocks have 255 coordinates, words 64. Between the two are padded blocks: four words each, the
// last bit of which is 0. A batch of 64 blocks is 255 words, so that all batches of a segment lie
// alike in its words.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized" // in its own intrinsics (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define TRUESTEP_BYTES                                                                                     \
    __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vbmi,avx512vbmi2,avx512bitalg,"        \
                          "avx512vpopcntdq,gfni,bmi,bmi2,popcnt")))

/// Some machines with this variant lack them, and use plain code.
inline bool has_byte_instructions() {
    static const bool has =
        __builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0 &&
        __builtin_cpu_supports("avx512bitalg") != 0 && __builtin_cpu_supports("avx512vpopcntdq") != 0 &&
        __builtin_cpu_supports("gfni") != 0;
    return has;
}

constexpr Index batch_blocks =
    problem::tunable<Index>("batch_blocks"); // with fewer the coordinates are not whole words: 255 is odd
constexpr Index batch_size = batch_blocks * position_block; ///< coordinates: 255 whole words
constexpr Index batch_words = batch_size / word_bits;
constexpr Index lanes = 8; ///< words in a register

/// The lowest `count` bits, also for counts below 1 or above 64.
TRUESTEP_BYTES inline std::uint64_t lowest(Index count) {
    return count <= 0 ? 0 : _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(count < 64 ? count : 64));
}

/// `count` words, 8 at most, followed by 0.
TRUESTEP_BYTES inline __m512i words_there(const std::uint64_t* words, Index count) {
    return count >= lanes ? _mm512_loadu_si512(words)
                          : _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lowest(count)), words);
}

/// The words before those of `here`, the one that ended `before` first.
TRUESTEP_BYTES inline __m512i one_earlier(__m512i here, __m512i before) {
    return _mm512_alignr_epi64(here, before, 7);
}

TRUESTEP_BYTES inline __m512i any_of(__m512i a, __m512i b, __m512i c) {
    return _mm512_ternarylogic_epi64(a, b, c, 0xfe);
}

/// The distance of the 8 words from word 0 of a batch on to their padded places: block b is off by
/// b bits.
TRUESTEP_BYTES inline __m512i first_shifts() {
    return _mm512_setr_epi64(0, 0, 0, 0, 1, 1, 1, 1);
}

// ------------------------------------------------------------------------------------------------------------
// decoding

/// Pours the batches' bits, one after the other, into a segment's words. Each word is written once;
/// only the first and the last are read, which may have bits of other segments.
class BitWriter {
  public:
    TRUESTEP_BYTES BitWriter(Index begin, Index end, std::uint64_t* all)
        : words_(all + begin / word_bits), last_(all + (end - 1) / word_bits), of_others_(*last_),
          carried_(*words_), shift_(static_cast<unsigned>(begin % word_bits)) {}

    /// Pours a batch of padded blocks with `size` coordinates, followed by a register of zeros.
    /// False if a block has a 256th coordinate.
    TRUESTEP_BYTES bool pour(const std::uint64_t* padded, Index size) {
        return shift_ == 0 ? pour_at<true>(padded, size) : pour_at<false>(padded, size);
    }
    TRUESTEP_BYTES void finish() const { *last_ |= of_others_; }

  private:
    template <bool at_a_word>
    TRUESTEP_BYTES bool pour_at(const std::uint64_t* padded, Index size) {
        const __m128i up = _mm_cvtsi32_si128(static_cast<int>(shift_));
        const __m128i down = _mm_cvtsi32_si128(64 - static_cast<int>(shift_));
        const __m512i two = _mm512_set1_epi64(2);
        __m512i right = first_shifts();
        // A block's last word has 63 coordinates: the next block begins one bit earlier in it.
        __m512i left = _mm512_setr_epi64(64, 64, 64, 63, 63, 63, 63, 62);
        __m512i any = _mm512_setzero_si512();
        __m512i before = any;
        __m512i carried = _mm512_maskz_set1_epi64(1, static_cast<long long>(carried_));
        const Index count = (static_cast<Index>(shift_) + size + word_bits - 1) / word_bits;
        for (Index word = 0; word < count; word += lanes) {
            const __m512i block = _mm512_loadu_si512(padded + word);
            any = _mm512_or_si512(any, block);
            const __m512i low = _mm512_srlv_epi64(block, right);
            const __m512i high = _mm512_sllv_epi64(_mm512_loadu_si512(padded + word + 1), left);
            __m512i poured;
            if constexpr (at_a_word) {
                poured = any_of(low, high, carried);
            } else {
                const __m512i here = _mm512_or_si512(low, high);
                poured = any_of(_mm512_sll_epi64(here, up),
                                _mm512_srl_epi64(one_earlier(here, before), down), carried);
                before = here;
            }
            if (count - word >= lanes)
                _mm512_storeu_si512(words_ + word, poured);
            else
                _mm512_mask_storeu_epi64(words_ + word, static_cast<__mmask8>(lowest(count - word)),
                                         poured);
            carried = _mm512_setzero_si512();
            right = _mm512_add_epi64(right, two);
            left = _mm512_sub_epi64(left, two);
        }
        words_ += batch_words;
        carried_ = !at_a_word && size == batch_size ? *words_ : 0;
        return (_mm512_movepi64_mask(any) & 0x88U) == 0;
    }

    std::uint64_t* words_; ///< of the next batch
    std::uint64_t* last_;
    std::uint64_t of_others_;
    std::uint64_t carried_; ///< the bits that the first of them has already
    unsigned shift_;
};

TRUESTEP_BYTES inline __m512i transposed(__m512i bytes) {
    return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(static_cast<long long>(0x8040'2010'0804'0201U)),
                                         bytes, 0);
}

constexpr long long powers = static_cast<long long>(0x8040'2010'0804'0201U);            // 1, 2 ... 128
constexpr long long powers_from_above = static_cast<long long>(0x0102'0408'1020'4080U); // 128, 64 ... 1

/// A product of bits: for each 8 positions, the bytes of a word that hold them, times their bits.
/// The result at a place is the parity of the positions there; ascending positions occur at most
/// once. A position that is not there sets no bit.
TRUESTEP_BYTES inline __m512i bits_of(__m512i positions, __mmask64 there) {
    return transposed(
        _mm512_maskz_permutexvar_epi8(there, positions, _mm512_set1_epi64(powers_from_above)));
}
/// The byte of a block: a position's highest five bits. A sixth belongs to its neighbour, so tables
/// indexed by these are stored twice.
TRUESTEP_BYTES inline __m512i bytes_of(__m512i positions) {
    return _mm512_srli_epi16(positions, 3);
}
/// The first, second ... words of the product of each 8 positions.
TRUESTEP_BYTES inline __m512i product(__m512i bytes, __m512i table, __m512i bits) {
    return _mm512_gf2p8affine_epi64_epi8(transposed(_mm512_permutexvar_epi8(bytes, table)), bits, 0);
}
struct Products {
    TRUESTEP_BYTES Products(__m512i positions, __mmask64 there) {
        const __m512i bits = bits_of(positions, there);
        const __m512i bytes = bytes_of(positions);
        words[0] = product(bytes, _mm512_setr_epi64(powers, 0, 0, 0, powers, 0, 0, 0), bits);
        words[1] = product(bytes, _mm512_setr_epi64(0, powers, 0, 0, 0, powers, 0, 0), bits);
        words[2] = product(bytes, _mm512_setr_epi64(0, 0, powers, 0, 0, 0, powers, 0), bits);
        words[3] = product(bytes, _mm512_setr_epi64(0, 0, 0, powers, 0, 0, 0, powers), bits);
    }
    __m512i words[4];
};

/// Interleaves the words of two registers' lanes: of their lower halves, or of their upper ones.
TRUESTEP_BYTES inline __m512i lower_words(__m512i a, __m512i b) {
    return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b);
}
TRUESTEP_BYTES inline __m512i upper_words(__m512i a, __m512i b) {
    return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b);
}
/// The same for pairs of words.
TRUESTEP_BYTES inline __m512i lower_pairs(__m512i a, __m512i b) {
    return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), b);
}
TRUESTEP_BYTES inline __m512i upper_pairs(__m512i a, __m512i b) {
    return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), b);
}
/// Adds the words at even places to those at odd ones, alternating between the registers.
TRUESTEP_BYTES inline __m512i added_pairs(__m512i a, __m512i b) {
    return _mm512_xor_si512(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/// Pads the blocks of a register that has 8 * `groups` places for the positions of each.
template <int groups>
TRUESTEP_BYTES inline void pad_blocks(__m512i positions, __mmask64 there, std::uint64_t* padded) {
    const Products products(positions, there);
    const __m512i* const words = products.words;
    if constexpr (groups == 1) {
        const __m512i lower_first = lower_words(words[0], words[1]);
        const __m512i lower_second = lower_words(words[2], words[3]);
        const __m512i upper_first = upper_words(words[0], words[1]);
        const __m512i upper_second = upper_words(words[2], words[3]);
        _mm512_storeu_si512(padded, lower_pairs(lower_first, lower_second));
        _mm512_storeu_si512(padded + 8, upper_pairs(lower_first, lower_second));
        _mm512_storeu_si512(padded + 16, lower_pairs(upper_first, upper_second));
        _mm512_storeu_si512(padded + 24, upper_pairs(upper_first, upper_second));
    } else {
        const __m512i first = added_pairs(words[0], words[1]);
        const __m512i second = added_pairs(words[2], words[3]);
        if constexpr (groups == 2) {
            _mm512_storeu_si512(padded, lower_pairs(first, second));
            _mm512_storeu_si512(padded + 8, upper_pairs(first, second));
        } else {
            static_assert(groups == 4);
            const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
            const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
            _mm512_storeu_si512(padded, _mm512_xor_si512(_mm512_permutex2var_epi64(first, even, second),
                                                         _mm512_permutex2var_epi64(first, odd, second)));
        }
    }
}

/// For each of a block's 8 * `groups` places, whether it holds a position: the first places do.
template <int groups>
TRUESTEP_BYTES inline void places_of(const std::uint8_t* counts, std::uint64_t* places) {
    if constexpr (groups == 1) {
        const __m512i first = _mm512_setr_epi64(0x7f3f'1f0f'0703'0100, 0xff, 0, 0, 0, 0, 0, 0);
        _mm512_storeu_si512(places, _mm512_permutexvar_epi8(_mm512_loadu_si512(counts), first));
    } else if constexpr (groups == 2) {
        const __m512i one = _mm512_set1_epi16(1);
        for (unsigned i = 0; i < 64; i += 32) {
            const __m512i wide =
                _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(counts + i)));
            _mm512_storeu_si512(places + i / 4, _mm512_sub_epi16(_mm512_sllv_epi16(one, wide), one));
        }
    } else {
        const __m512i one = _mm512_set1_epi32(1);
        for (unsigned i = 0; i < 64; i += 16) {
            const __m512i wide =
                _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(counts + i)));
            _mm512_storeu_si512(places + i / 2, _mm512_sub_epi32(_mm512_sllv_epi32(one, wide), one));
        }
    }
}

/// Reads positions from the first to the last, and none behind it; checks that they ascend.
class PositionStream {
  public:
    TRUESTEP_BYTES PositionStream(const std::uint8_t* positions, Index count)
        : next_(positions), end_(positions + count) {}

    /// Pads a batch's blocks, 8 / `groups` at a time, or one by one if one of these has more
    /// positions than places.
    template <int groups>
    TRUESTEP_BYTES void pad(const std::uint8_t* counts, Index blocks, std::uint64_t* padded) {
        constexpr Index together = 8 / groups;
        constexpr std::uint64_t ends = groups == 1 ? 0x8080'8080'8080'8080U : 0x8000'8000'8000'8000U;
        alignas(64) std::uint64_t
            all_places[static_cast<std::size_t>(8 * groups)]; // NOLINT: written before it is read
        places_of<groups>(counts, all_places);
        const std::uint64_t over = more_than(8 * groups, counts);
        for (Index block = 0; block < blocks; block += together, padded += 4 * together) {
            if ((over >> static_cast<unsigned>(block) & lowest(together)) != 0) {
                for (Index i = 0; i < together; ++i)
                    pad_one(counts[block + i], padded + 4 * i);
                continue;
            }
            const std::uint64_t places = all_places[block / together];
            const Index count = std::popcount(places);
            const std::uint64_t last = places & ~(places >> 1U & ~ends); // the last one of each block
            const __m512i here = from(next_);
            bad_ |=
                _mm512_cmpge_epu8_mask(here, from(next_ + 1)) & lowest(count) & ~_pext_u64(last, places);
            pad_blocks<groups>(_mm512_maskz_expand_epi8(places, here), places, padded);
            next_ += count;
        }
    }

    /// The same with 32 places for each of two blocks; positions without a place are added at the
    /// end.
    TRUESTEP_BYTES void pad_pairs(const std::uint8_t* counts, Index blocks, std::uint64_t* padded) {
        constexpr Index places_each = 32;
        constexpr std::uint64_t ends = 0x8000'0000'8000'0000U;
        alignas(64) std::uint64_t all_places[std::size_t{8} * 4]; // NOLINT: written before it is read
        const std::uint8_t* begins[batch_blocks];                 // NOLINT: the same
        places_of<4>(counts, all_places);
        for (Index block = 0; block < blocks; block += 2) {
            const std::uint8_t* const second = next_ + counts[block];
            const std::uint64_t places = all_places[block / 2];
            begins[block] = next_;
            begins[block + 1] = second;
            const __m512i here = two_from(next_, second);
            bad_ |= _mm512_cmpge_epu8_mask(here, two_from(next_ + 1, second + 1)) & places & places >> 1U &
                    ~ends;
            pad_blocks<4>(here, places, padded + 4 * block);
            next_ = second + counts[block + 1];
        }
        for (std::uint64_t over = more_than(places_each, counts); over != 0; over &= over - 1) {
            const Index block = std::countr_zero(over);
            note_ascent(begins[block] + places_each - 1, counts[block] - places_each + 1);
            add_to(padded + 4 * block, begins[block] + places_each, counts[block] - places_each);
        }
    }
    [[nodiscard]] bool ascends() const { return bad_ == 0; }

  private:
    TRUESTEP_BYTES static std::uint64_t more_than(Index count, const std::uint8_t* counts) {
        return _mm512_cmpgt_epu8_mask(_mm512_loadu_si512(counts),
                                      _mm512_set1_epi8(static_cast<char>(count)));
    }

    /// The bytes from there on, at most a register of them.
    TRUESTEP_BYTES __m512i from(const std::uint8_t* positions) const {
        const Index left = end_ - positions;
        return left >= 64 ? _mm512_loadu_si512(positions)
                          : _mm512_maskz_loadu_epi8(lowest(left), positions);
    }
    /// Half a register from each of two places.
    TRUESTEP_BYTES __m512i two_from(const std::uint8_t* first, const std::uint8_t* second) const {
        if (end_ - second >= 32)
            return _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first))),
                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)), 1);
        const std::uint64_t half = lowest(32);
        return _mm512_inserti64x4(
            _mm512_castsi256_si512(
                _mm256_maskz_loadu_epi8(static_cast<__mmask32>(lowest(end_ - first) & half), first)),
            _mm256_maskz_loadu_epi8(static_cast<__mmask32>(lowest(end_ - second) & half), second), 1);
    }

    /// Checks that `count` positions of one block ascend.
    TRUESTEP_BYTES void note_ascent(const std::uint8_t* positions, Index count) {
        for (; count > 1; count -= 64, positions += 64) {
            const __mmask64 followed = lowest(count - 1);
            bad_ |= _mm512_mask_cmpge_epu8_mask(followed, _mm512_maskz_loadu_epi8(followed, positions),
                                                _mm512_maskz_loadu_epi8(followed, positions + 1));
        }
    }

    /// Adds `count` positions to a block, 8 at a time: the same product, of four words in a
    /// register.
    TRUESTEP_BYTES static void add_to(std::uint64_t* padded, const std::uint8_t* positions, Index count) {
        const __m256i table = _mm256_setr_epi64x(powers, 0, 0, 0);
        const __m256i word =
            _mm256_setr_epi64x(0, 0x0808'0808'0808'0808, 0x1010'1010'1010'1010, 0x1818'1818'1818'1818);
        const __m256i ones = _mm256_set1_epi64x(powers);
        auto* const block = reinterpret_cast<__m256i*>(padded);
        __m256i bits = _mm256_loadu_si256(block);
        for (; count > 0; count -= 8, positions += 8) {
            const auto there = static_cast<__mmask32>(lowest(count < 8 ? count : 8) * 0x0101'0101U);
            const __m256i here = _mm256_broadcastq_epi64(
                _mm_maskz_loadu_epi8(static_cast<__mmask16>(there & 0xffU), positions));
            const __m256i of_word = _mm256_sub_epi8(_mm256_srli_epi16(here, 3), word);
            bits = _mm256_xor_si256(
                bits,
                _mm256_gf2p8affine_epi64_epi8(
                    _mm256_gf2p8affine_epi64_epi8(ones, _mm256_permutexvar_epi8(of_word, table), 0),
                    _mm256_gf2p8affine_epi64_epi8(
                        ones,
                        _mm256_maskz_permutexvar_epi8(there, here, _mm256_set1_epi64x(powers_from_above)),
                        0),
                    0));
        }
        _mm256_storeu_si256(block, bits);
    }

    /// Pads a single block of any count.
    TRUESTEP_BYTES void pad_one(Index count, std::uint64_t* padded) {
        std::memset(padded, 0, 4 * sizeof *padded);
        note_ascent(next_, count);
        add_to(padded, next_, count);
        next_ += count;
    }

    const std::uint8_t* next_;
    const std::uint8_t* end_;
    std::uint64_t bad_ = 0; ///< a bit for each position that is not less than its successor, somewhere
};

/// Whether a padded block has a bit beyond its first `size`.
TRUESTEP_BYTES inline bool is_beyond(const std::uint64_t* block, Index size) {
    std::uint64_t beyond = 0;
    for (Index word = 0; word < 4; ++word)
        beyond |= block[word] & ~lowest(size - word * word_bits);
    return beyond != 0;
}

/// Decodes with places for 8 * `groups` positions of a block; most blocks have fewer.
template <int groups>
TRUESTEP_BYTES bool decode_blocks(const std::uint8_t* counts, const std::uint8_t* positions, Index begin,
                                  Index end, Index k, std::uint64_t* words) {
    alignas(64) std::uint64_t padded[4 * batch_blocks + lanes];
    alignas(64) std::uint8_t counts_here[batch_blocks]; // NOLINT: written before it is read
    std::memset(padded + 4 * batch_blocks, 0, lanes * sizeof *padded);
    PositionStream stream(positions, k);
    BitWriter to(begin, end, words);
    for (; begin < end; begin += batch_size, counts += batch_blocks) {
        const Index size = end - begin < batch_size ? end - begin : batch_size;
        const Index blocks = (size + position_block - 1) / position_block;
        _mm512_store_si512(counts_here, _mm512_maskz_loadu_epi8(lowest(blocks), counts));
        if (blocks < batch_blocks)
            std::memset(padded, 0, sizeof padded);
        if constexpr (groups == 4)
            stream.pad_pairs(counts_here, blocks, padded);
        else
            stream.template pad<groups>(counts_here, blocks, padded);
        if (!stream.ascends() ||
            is_beyond(padded + 4 * (blocks - 1), size - (blocks - 1) * position_block) ||
            !to.pour(padded, size))
            return false;
    }
    to.finish();
    return true;
}

TRUESTEP_BYTES inline bool counts_to_by_bytes(const std::uint8_t* counts, Index blocks, Index k) {
    __m512i total = _mm512_setzero_si512();
    for (; blocks > 0; blocks -= 64, counts += 64)
        total = _mm512_add_epi64(total, _mm512_sad_epu8(_mm512_maskz_loadu_epi8(lowest(blocks), counts),
                                                        _mm512_setzero_si512()));
    return _mm512_reduce_add_epi64(total) == k;
}

// ------------------------------------------------------------------------------------------------------------
// encoding

/// Pads `blocks` blocks of the `size` coordinates that begin with bit `shift` of a word: up to a
/// batch, and up to a register beyond the last.
template <bool at_a_word>
TRUESTEP_BYTES void pad_bits(const std::uint64_t* words, unsigned shift, Index size, Index blocks,
                             std::uint64_t* padded) {
    const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift));
    const __m128i up = _mm_cvtsi32_si128(64 - static_cast<int>(shift));
    const __m512i two = _mm512_set1_epi64(2);
    // Without the first bit of the next block.
    const __m512i of_block = _mm512_setr_epi64(-1, -1, -1, INT64_MAX, -1, -1, -1, INT64_MAX);
    const Index count = (static_cast<Index>(shift) + size + word_bits - 1) / word_bits;
    __m512i left = first_shifts();
    __m512i right = _mm512_sub_epi64(_mm512_set1_epi64(64), left);
    __m512i before = _mm512_setzero_si512();
    for (Index word = 0; word < 4 * blocks; word += lanes) {
        __m512i here = words_there(words + word, count - word);
        if constexpr (!at_a_word)
            here = _mm512_or_si512(_mm512_srl_epi64(here, down),
                                   _mm512_sll_epi64(words_there(words + word + 1, count - word - 1), up));
        const __m512i bits = _mm512_or_si512(_mm512_sllv_epi64(here, left),
                                             _mm512_srlv_epi64(one_earlier(here, before), right));
        _mm512_storeu_si512(padded + word, _mm512_and_si512(bits, of_block));
        before = here;
        left = _mm512_add_epi64(left, two);
        right = _mm512_sub_epi64(right, two);
    }
}

/// Writes the positions of padded blocks: whole registers where there is room for them, which the
/// next one overwrites.
class PositionSink {
  public:
    TRUESTEP_BYTES PositionSink(std::uint8_t* positions, std::uint8_t* end) : next_(positions), end_(end) {
        for (unsigned i = 0; i < 256; ++i)
            number_[i] = static_cast<std::uint8_t>(i);
    }

    /// Takes two blocks in which few bytes have more than one bit: it compresses the bytes with a
    /// bit, and their numbers.
    TRUESTEP_BYTES void take_few(const std::uint64_t* padded, std::uint8_t* counts) {
        const __m512i all = _mm512_loadu_si512(padded);
        const __m512i one_less = _mm512_sub_epi8(all, _mm512_set1_epi8(1));
        if (_mm512_test_epi8_mask(all, one_less) != 0)
            return take(padded, counts);
        const __m512i first_of_byte =
            _mm512_and_si512(_mm512_slli_epi16(_mm512_load_si512(number_), 3), _mm512_set1_epi8(-8));
        const __mmask64 taken = _mm512_test_epi8_mask(all, all);
        const __m512i position =
            _mm512_add_epi8(first_of_byte, _mm512_popcnt_epi8(_mm512_andnot_si512(all, one_less)));
        counts[0] = static_cast<std::uint8_t>(std::popcount(taken & lowest(32)));
        counts[1] = static_cast<std::uint8_t>(std::popcount(taken >> 32U));
        put(_mm512_maskz_compress_epi8(taken, position), counts[0] + counts[1]);
    }

    /// Takes two blocks, word by word.
    TRUESTEP_BYTES void take(const std::uint64_t* padded, std::uint8_t* counts) {
        for (Index block = 0; block < 2; ++block) {
            const std::uint8_t* const first = next_;
            for (Index word = 0; word < 4; ++word) {
                const std::uint64_t bits = padded[4 * block + word];
                put(_mm512_maskz_compress_epi8(bits, _mm512_load_si512(number_ + word_bits * word)),
                    std::popcount(bits));
            }
            counts[block] = static_cast<std::uint8_t>(next_ - first);
        }
    }

  private:
    TRUESTEP_BYTES void put(__m512i positions, Index count) {
        if (end_ - next_ >= 64)
            _mm512_storeu_si512(next_, positions);
        else
            _mm512_mask_storeu_epi8(next_, lowest(count), positions);
        next_ += count;
    }

    std::uint8_t* next_;
    std::uint8_t* end_;
    alignas(64) std::uint8_t number_[256];
};

TRUESTEP_BYTES void encode_positions_by_bytes(const std::uint64_t* words, Index begin, Index end,
                                              std::uint8_t* counts, std::uint8_t* positions,
                                              const std::uint8_t* positions_end) {
    alignas(64) std::uint64_t padded[4 * batch_blocks]; // NOLINT: written before it is read
    alignas(64) std::uint8_t counts_here[batch_blocks]; // NOLINT: the same
    const Index k = positions_end - positions;
    const bool are_few = k < (end - begin) / 40;
    PositionSink sink(positions, positions + k);
    words += begin / word_bits;
    const auto shift = static_cast<unsigned>(begin % word_bits);
    for (; begin < end; begin += batch_size, words += batch_words, counts += batch_blocks) {
        const Index size = end - begin < batch_size ? end - begin : batch_size;
        const Index blocks = (size + position_block - 1) / position_block;
        (shift == 0 ? pad_bits<true> : pad_bits<false>)(words, shift, size, blocks, padded);
        for (Index word = size / position_block * 4; word < (blocks + 1) / 2 * lanes;
             ++word) // the last block, and none behind it
            padded[word] &= lowest(size - word / 4 * position_block - word % 4 * word_bits);
        for (Index block = 0; block < blocks; block += 2)
            if (are_few)
                sink.take_few(padded + 4 * block, counts_here + block);
            else
                sink.take(padded + 4 * block, counts_here + block);
        _mm512_mask_storeu_epi8(counts, lowest(blocks), _mm512_load_si512(counts_here));
    }
}

TRUESTEP_BYTES Index count_words_by_registers(const std::uint64_t* words, Index count) {
    __m512i total = _mm512_setzero_si512();
    for (Index word = 0; word < count; word += lanes)
        total = _mm512_add_epi64(total, _mm512_popcnt_epi64(words_there(words + word, count - word)));
    return _mm512_reduce_add_epi64(total);
}

// ------------------------------------------------------------------------------------------------------------

TRUESTEP_TARGET Index count_set(const std::uint64_t* words, Index count) {
    return (has_byte_instructions() ? count_words_by_registers : count_words)(words, count);
}

TRUESTEP_TARGET void encode_positions(const std::uint64_t* words, Index begin, Index end,
                                      std::uint8_t* counts, std::uint8_t* positions,
                                      const std::uint8_t* positions_end) {
    (has_byte_instructions() ? encode_positions_by_bytes
                             : plain_encode_positions)(words, begin, end, counts, positions, positions_end);
}

TRUESTEP_TARGET bool decode_positions(const std::uint8_t* counts, const std::uint8_t* positions,
                                      Index begin, Index end, Index k, std::uint64_t* words) {
    if (!has_byte_instructions())
        return plain_decode_positions(counts, positions, begin, end, k, words);
    const Index blocks = (end - begin + position_block - 1) / position_block;
    if (!counts_to_by_bytes(counts, blocks, k))
        return false;
    // Enough places for nearly all blocks if the positions are spread at random.
    const auto decode = k < 3 * blocks   ? decode_blocks<1>
                        : k < 8 * blocks ? decode_blocks<2>
                                         : decode_blocks<4>;
    return decode(counts, positions, begin, end, k, words);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
