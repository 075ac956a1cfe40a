// These are the quicker ways of words.hpp, written once for registers of any width. Each variant with
// expand and compress, or tables in their place, includes it once, within its anonymous namespace, behind
// words.hpp; hence no include guard. Loops over groups are unrolled, so that each place is a constant. The
// variant has to have:
//     Floats, Scores            a register of `group_size` values or scores; Floats has +, - and *
//     ahead                     how far the streams are prefetched, in bytes
//     all_of(value)             a register of it
//     scores_of(values)         their scores
//     greater_of(a, b)          of each two scores the greater one
//     above(scores, limit)      a bit for each score above it
// and, for the `group_size` places of a word from `place` on:
//     expanded(word, place, packed)    packed values at their places, and +0 where a bit is missing
//     compressed(word, place, values)  the values with a bit come first; what follows may be anything
//     left_of(word, place, values)     the values without a bit, and +0 in place of the others

TRUESTEP_TARGET inline Floats load(const float* at) {
    Floats values;
    std::memcpy(&values, at, sizeof values);
    return values;
}

TRUESTEP_TARGET inline void store(float* at, Floats values) {
    std::memcpy(at, &values, sizeof values);
}

/// The number of bits before `place`, so that no group waits for the one before it.
TRUESTEP_TARGET inline Index bits_before(std::uint64_t word, Index place) {
#if defined(__aarch64__)
    // Each count goes through a vector register and back: two of them serve all places of a word, which
    // are multiples of 4.
    static_assert(group_size % 4 == 0);
    const auto counts = [](std::uint64_t bits) {
        return vget_lane_u64(vreinterpret_u64_u8(vcnt_u8(vcreate_u8(bits))), 0);
    };
    std::uint64_t before = counts(word) * 0x0101'0101'0101'0100U;
    if (place % 8 != 0)
        before += counts(word & 0x0f0f'0f0f'0f0f'0f0fU);
    return static_cast<Index>(before >> static_cast<unsigned>(place / 8 * 8) & 0xffU);
#else
    return place == 0 ? 0 : std::popcount(word << static_cast<unsigned>(word_bits - place));
#endif
}

/// Whether whole registers may be read or written from a word's first packed value on.
inline bool is_far(const float* packed, const float* end) {
    return end - packed >= word_bits + group_size;
}

TRUESTEP_TARGET void between(const Score* scores, Score low, Score high, std::uint64_t& above_high,
                             std::uint64_t& inside) {
    above_high = 0;
    inside = 0;
    for (Index place = 0; place < word_bits; place += group_size) {
        Scores part;
        std::memcpy(&part, scores + place, sizeof part);
        above_high |= above(part, high) << static_cast<unsigned>(place);
        inside |= above(part, low - 1) << static_cast<unsigned>(place);
    }
    inside &= ~above_high;
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
#pragma GCC unroll 16
            for (Index place = 0; place < word_bits; place += group_size) {
                const Floats values = expanded(from, place, load(m + bits_before(from, place)));
                store(packed + bits_before(to, place), compressed(to, place, values));
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
    // These are in registers, for what is stored may be anything.
    const float* g = pass.g + at.begin;
    const float* e = pass.e + at.begin;
    float* kept = pass.kept + at.begin;
    const std::uint64_t* const last = pass.last.words() + at.begin / word_bits;
    const std::uint64_t* const current = pass.current.words() + at.begin / word_bits;
    const float* m = at.m;
    const float* const m_end = at.m_end;
    float* payload = at.payload;
    const float* const payload_end = at.payload_end;
    const Floats b1 = all_of(s.b1);
    const Floats a1 = all_of(s.a1);
    Index word = 0;
    for (; word < words && is_far(m, m_end) && is_far(payload, payload_end);
         ++word, g += word_bits, e += word_bits, kept += word_bits) {
        prefetch_word(g, ahead);
        prefetch_word(e, ahead);
        if constexpr (checks) {
            Scores worst{};
            for (Index place = 0; place < word_bits; place += group_size)
                worst = greater_of(worst, scores_of(load(g + place)));
            if (above(worst, greatest) != 0)
                break;
        }
        float all[word_bits];
        const std::uint64_t from = last[word];
        const std::uint64_t to = current[word];
#pragma GCC unroll 16
        for (Index place = 0; place < word_bits; place += group_size) {
            const Floats from_m = expanded(from, place, b1 * load(m + bits_before(from, place)));
            const Floats c = from_m + a1 * load(g + place) + load(e + place);
            if constexpr (watched)
                store(all + place, c);
            const Floats rest = left_of(to, place, c);
            // The store also writes behind the word's values, where later coordinates belong.
            store(payload + bits_before(to, place), compressed(to, place, c));
            store(kept + place, rest);
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
    const Floats decay = all_of(s.decay);
    const Floats learning_rate = all_of(s.learning_rate);
    Scores greatest{};
    Index word = 0;
    for (; word < words && is_far(u, u_end); ++word, w += word_bits) {
        prefetch_word(w, ahead);
        const std::uint64_t bits = current[word];
        if (std::popcount(bits) > few) {
#pragma GCC unroll 16
            for (Index place = 0; place < word_bits; place += group_size) {
                // Less +0 every value stays what it is.
                const Floats change =
                    expanded(bits, place, learning_rate * load(u + bits_before(bits, place)));
                const Floats result = load(w + place) * decay - change;
                store(w + place, result);
                greatest = greater_of(greatest, scores_of(result));
            }
        } else {
            for (Index place = 0; place < word_bits; place += group_size) {
                const Floats result = load(w + place) * decay;
                store(w + place, result);
                greatest = greater_of(greatest, scores_of(result));
            }
            const Score of_bits = update_word(s, bits, w, u);
            worst = of_bits > worst ? of_bits : worst;
        }
        u += std::popcount(bits);
    }
    all_u = u;
    alignas(sizeof(Scores)) Score each[group_size];
    std::memcpy(each, &greatest, sizeof greatest);
    for (const Score score : each)
        worst = score > worst ? score : worst;
    return word;
}
