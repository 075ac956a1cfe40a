// The passes over masks by words of 64 coordinates: a word without bits is plain vector code, and the bits
// of another are visited one by one, unless the variant has a quicker way with several words:
// local_words(), repack_words(), update_words(), which registers.hpp has for all registers. Each variant
// includes it once, within its anonymous namespace, behind packed.hpp; hence no include guard.

/// The word at `begin`, a multiple of 64.
inline std::uint64_t word_at(const Mask& mask, Index begin) {
    return mask.words()[static_cast<std::size_t>(begin / word_bits)];
}

/// 64 values of a vector packed on `bits`, +0 where a bit is missing.
TRUESTEP_TARGET inline void expand_word(std::uint64_t bits, const float* packed, float* values) {
    if (bits == ~std::uint64_t{0}) {
        std::memcpy(values, packed, word_bits * sizeof(float));
        return;
    }
    std::memset(values, 0, word_bits * sizeof(float));
    for (; bits != 0; bits &= bits - 1)
        values[std::countr_zero(bits)] = *packed++;
}

/// Moves the values that have a bit to `packed` and leaves +0.
TRUESTEP_TARGET inline void extract_word(std::uint64_t bits, float* values, float* packed) {
    if (bits == ~std::uint64_t{0}) {
        std::memcpy(packed, values, word_bits * sizeof(float));
        std::memset(values, 0, word_bits * sizeof(float));
        return;
    }
    for (; bits != 0; bits &= bits - 1) {
        float& value = values[std::countr_zero(bits)];
        *packed++ = value;
        value = 0.0F;
    }
}

/// Which scores of a word are above `high`, and which from `low` to `high`.
TRUESTEP_TARGET void between(const Score* scores, Score low, Score high, std::uint64_t& above,
                             std::uint64_t& inside);

/// Returns a word's scores above the bracket as bits, and adds those inside to the candidates.
/// `position` is that of the word's first score.
TRUESTEP_TARGET inline std::uint64_t note_word(const Score* values, Score low, Score high,
                                               std::uint32_t position, Candidates& candidates) {
    std::uint64_t above = 0;
    std::uint64_t inside = 0;
    between(values, low, high, above, inside);
    for (; inside != 0; inside &= inside - 1) {
        const int bit = std::countr_zero(inside);
        candidates.scores[candidates.count] = values[bit];
        candidates.positions[candidates.count] = position + static_cast<std::uint32_t>(bit);
        ++candidates.count;
    }
    return above;
}

/// Watches a word whose c is known.
TRUESTEP_TARGET inline void watch_word(Watch& watch, Index begin, const float* c) {
    if (watch.candidates.count > watch.candidates.capacity)
        return;
    Score values[word_bits];
    for (Index i = 0; i < word_bits; ++i)
        values[i] = std::bit_cast<Score>(c[i]) & greatest_score;
    const Index from_begin = begin - watch.begin;
    const std::uint64_t above =
        note_word(values, watch.low, watch.high, watch.position + static_cast<std::uint32_t>(from_begin),
                  watch.candidates);
    watch.next[from_begin / word_bits] = above;
    watch.above += std::popcount(above);
}

/// Where the local pass is: from one word to the next.
struct LocalPlace {
    Index begin;
    const float* m; ///< the first value on `last` from `begin` on
    const float* m_end;
    float* payload; ///< the same on `current`; what follows in this range has room up to its end
    const float* payload_end;
    Watch* watch; ///< of the words from `begin` on, or nothing
};

/// The quicker way: as many of the next `words` words as the variant can, and none that is refused.
TRUESTEP_TARGET void local_words(const Scalars& s, const LocalPass& pass, Index words, LocalPlace& at);

/// One word. False if it checks and refuses a gradient.
TRUESTEP_TARGET inline bool local_word(const Scalars& s, const LocalPass& pass, LocalPlace& at) {
    const std::uint64_t last_bits = word_at(pass.last, at.begin);
    const std::uint64_t bits = word_at(pass.current, at.begin);
    const float* const gradient = pass.g + at.begin;
    const float* const residual = pass.e + at.begin;
    float* const kept = pass.kept + at.begin;
    prefetch_word(gradient);
    prefetch_word(residual);
    if (pass.checks && first_unacceptable(pass.g, at.begin, at.begin + word_bits) < at.begin + word_bits)
        return false;
    if (last_bits == 0) {
        for (Index i = 0; i < word_bits; ++i)
            kept[i] = element::local(s, 0.0F, gradient[i], residual[i]);
    } else {
        float moments[word_bits];
        expand_word(last_bits, at.m, moments);
        for (Index i = 0; i < word_bits; ++i)
            kept[i] = element::local(s, moments[i], gradient[i], residual[i]);
        at.m += std::popcount(last_bits);
    }
    if (at.watch != nullptr)
        watch_word(*at.watch, at.begin, kept);
    if (bits != 0) {
        extract_word(bits, kept, at.payload);
        at.payload += std::popcount(bits);
    }
    at.begin += word_bits;
    return true;
}

TRUESTEP_TARGET Index local_pass(const Scalars& scalars, Index begin, Index end, const LocalPass& pass) {
    const Scalars s = scalars;
    std::span<Watch> watches = pass.watches;
    LocalPlace at{.begin = begin,
                  .m = pass.m + pass.last.offset_of_chunk(begin),
                  .m_end = pass.m + pass.last.selected(),
                  .payload = pass.payload + pass.current.offset_of_chunk(begin),
                  .payload_end = pass.payload + pass.current.offset_of_chunk(end),
                  .watch = nullptr};
    while (at.begin + word_bits <= end) {
        at.watch = watch_at(watches, at.begin);
        const Index until = at.watch != nullptr ? at.watch->end
                            : watches.empty()   ? end
                                                : watches.front().begin;
        local_words(s, pass, (until - at.begin) / word_bits, at);
        if (at.begin + word_bits <= until && !local_word(s, pass, at))
            return first_unacceptable(pass.g, at.begin, at.begin + word_bits);
    }
    if (at.begin < end) {
        if (const Index refused = pass.checks ? first_unacceptable(pass.g, at.begin, end) : end;
            refused < end)
            return refused;
        local_rest(scalars, end - at.begin, pass.g + at.begin, pass.e + at.begin, pass.kept + at.begin,
                   word_at(pass.last, at.begin), at.m, word_at(pass.current, at.begin), at.payload);
    }
    return end;
}

TRUESTEP_TARGET void extract(Index begin, Index end, float* e, const Mask& current, float* payload) {
    payload += current.offset_of_chunk(begin);
    for (; begin + word_bits <= end; begin += word_bits) {
        const std::uint64_t bits = word_at(current, begin);
        extract_word(bits, e + begin, payload);
        payload += std::popcount(bits);
    }
    if (begin < end)
        extract_rest(end - begin, e + begin, word_at(current, begin), payload);
}

/// The quicker way: does as many words as the variant can, and advances m and `packed`.
TRUESTEP_TARGET Index repack_words(Index words, const std::uint64_t* last, const float*& m,
                                   const float* m_end, const std::uint64_t* current, float*& packed,
                                   const float* packed_end);

TRUESTEP_TARGET void repack(Index begin, Index end, const Mask& last, const float* m, const Mask& current,
                            float* m_on_current) {
    const float* const m_end = m + last.selected() - last.offset_of_chunk(begin);
    const float* const packed_end =
        m_on_current + current.offset_of_chunk(end) - current.offset_of_chunk(begin);
    for (; begin < end; begin += word_bits) {
        const Index word = begin / word_bits;
        begin += word_bits * repack_words((end - begin) / word_bits, last.words() + word, m, m_end,
                                          current.words() + word, m_on_current, packed_end);
        if (begin >= end)
            break;
        const std::uint64_t last_bits = word_at(last, begin);
        const std::uint64_t bits = word_at(current, begin);
        repack_word(last_bits, m, bits, m_on_current);
        m += std::popcount(last_bits);
        m_on_current += std::popcount(bits);
    }
}

/// Updates the coordinates with a bit; returns the greatest score among them.
TRUESTEP_TARGET inline Score update_word(const Scalars& s, std::uint64_t bits, float* w, const float* u) {
    Score worst = 0;
    for (; bits != 0; bits &= bits - 1) {
        float& parameter = w[std::countr_zero(bits)];
        parameter = element::update(s, parameter, *u++);
        const Score score = score_of(parameter);
        worst = score > worst ? score : worst;
    }
    return worst;
}

/// The quicker way, with decay: does as many words as the variant can, advances u, and raises `worst` to
/// the greatest score.
TRUESTEP_TARGET Index update_words(const Scalars& s, Index words, float* w, const std::uint64_t* current,
                                   const float*& u, const float* u_end, Score& worst);

TRUESTEP_TARGET bool update(const Scalars& scalars, Index begin, Index end, float* w, const Mask& current,
                            const float* u) {
    const Scalars s = scalars;
    constexpr Score infinity = 0x7f80'0000;
    bool finite = true;
    if (s.decay == 1.0F) { // multiplying by 1 changes no bit
        for (; begin < end; begin += word_bits) {
            const std::uint64_t bits = word_at(current, begin);
            finite = update_word(s, bits, w + begin, u) < infinity && finite;
            u += std::popcount(bits);
        }
        return finite;
    }
    const float* const u_end = u + current.offset_of_chunk(end) - current.offset_of_chunk(begin);
    while (begin + word_bits <= end) {
        Score worst = 0;
        begin += word_bits * update_words(s, (end - begin) / word_bits, w + begin,
                                          current.words() + begin / word_bits, u, u_end, worst);
        finite = worst < infinity && finite;
        if (begin + word_bits > end)
            break;
        float* const parameters = w + begin;
        prefetch_word(parameters);
        worst = 0;
        for (Index i = 0; i < word_bits; ++i) {
            parameters[i] = parameters[i] * s.decay;
            worst = greater(worst, parameters[i]);
        }
        finite = worst < infinity && finite;
        const std::uint64_t bits = word_at(current, begin);
        finite = update_word(s, bits, parameters, u) < infinity && finite;
        u += std::popcount(bits);
        begin += word_bits;
    }
    if (begin < end)
        finite = update_rest(scalars, end - begin, w + begin, word_at(current, begin), u) && finite;
    return finite;
}

/// The scores of one word.
TRUESTEP_TARGET inline void score_word(const float* e, std::uint64_t bits, const float* payload,
                                       Score* scores) {
    for (Index i = 0; i < word_bits; ++i)
        scores[i] = std::bit_cast<Score>(e[i]) & greatest_score;
    for (; bits != 0; bits &= bits - 1)
        scores[std::countr_zero(bits)] = score_of(*payload++);
}

TRUESTEP_TARGET void score_words(const CandidateSource& source, Index words, Score* scores) {
    const float* payload = source.payload;
    for (Index word = 0; word < words; ++word) {
        const std::uint64_t bits = source.current[word];
        score_word(source.e + word * word_bits, bits, payload, scores + word * word_bits);
        payload += std::popcount(bits);
    }
}

TRUESTEP_TARGET Index bracket(const CandidateSource& source, Index words, std::uint32_t position, Score low,
                              Score high, std::uint64_t* next, Candidates& candidates) {
    const float* payload = source.payload;
    Index total = 0;
    for (Index word = 0; word < words && candidates.count <= candidates.capacity; ++word) {
        const std::uint64_t bits = source.current[word];
        Score values[word_bits];
        prefetch_word(source.e + word * word_bits);
        score_word(source.e + word * word_bits, bits, payload, values);
        payload += std::popcount(bits);
        next[word] = note_word(values, low, high, position + static_cast<std::uint32_t>(word * word_bits),
                               candidates);
        total += std::popcount(next[word]);
    }
    return total;
}

/// The variant's table: what is counted and coded in whole words is its own.
constexpr Table table_with(decltype(Table::count_words) count, decltype(Table::encode_positions) encode,
                           decltype(Table::decode_positions) decode) {
    return {.first_unacceptable = first_unacceptable,
            .local_pass = local_pass,
            .extract = extract,
            .repack = repack,
            .fold = fold,
            .to_bf16 = to_bf16,
            .fold_bf16 = fold_bf16,
            .to_e5m2 = to_e5m2,
            .fold_e5m2 = fold_e5m2,
            .greatest_score_of = greatest_score_of,
            .reconstruct = reconstruct,
            .square_sums = square_sums,
            .clip = clip,
            .directions = directions,
            .update = update,
            .dense = dense,
            .finite = finite,
            .inner = inner,
            .drift = drift,
            .gossip = gossip,
            .score_words = score_words,
            .count_at_least = count_at_least,
            .between = between,
            .bracket = bracket,
            .count_words = count,
            .count_common = count_common,
            .encode_bitmap = encode_bitmap,
            .decode_bitmap = decode_bitmap,
            .encode_positions = encode,
            .decode_positions = decode};
}
