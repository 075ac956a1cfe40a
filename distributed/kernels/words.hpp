// The passes over masks by words of 64 coordinates, for instruction sets without expand and
// compress: a word without bits is plain vector code, and what another's bits need is the variant's.
// Each such variant includes it once, within its anonymous namespace, after the functions between(),
// expand_word() and extract_word(); hence no include guard.

/// The word at `begin`, a multiple of 64.
inline std::uint64_t word_at(const Mask& mask, Index begin) {
    return mask.words()[static_cast<std::size_t>(begin / word_bits)];
}

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

TRUESTEP_TARGET Index local_pass(const Scalars& scalars, Index begin, Index end, const LocalPass& pass) {
    const Scalars s = scalars;
    const float* m = pass.m + pass.last.offset_of_chunk(begin);
    const float* const m_end = pass.m + pass.last.selected();
    float* payload = pass.payload + pass.current.offset_of_chunk(begin);
    const float* const payload_end = pass.payload + pass.current.offset_of_chunk(end);
    std::span<Watch> watches = pass.watches;
    for (; begin + word_bits <= end; begin += word_bits) {
        const std::uint64_t last_bits = word_at(pass.last, begin);
        const std::uint64_t bits = word_at(pass.current, begin);
        const float* const gradient = pass.g + begin;
        const float* const residual = pass.e + begin;
        float* const kept = pass.kept + begin;
        prefetch_word(gradient);
        prefetch_word(residual);
        if (pass.checks) {
            const Index refused = first_unacceptable(pass.g, begin, begin + word_bits);
            if (refused < begin + word_bits)
                return refused;
        }
        if (last_bits == 0) {
            for (Index i = 0; i < word_bits; ++i)
                kept[i] = element::local(s, 0.0F, gradient[i], residual[i]);
        } else {
            float moments[word_bits];
            expand_word(last_bits, m, m_end, moments);
            for (Index i = 0; i < word_bits; ++i)
                kept[i] = element::local(s, moments[i], gradient[i], residual[i]);
            m += std::popcount(last_bits);
        }
        if (Watch* const watch = watch_at(watches, begin))
            watch_word(*watch, begin, kept);
        if (bits != 0) {
            extract_word(bits, kept, payload, payload_end);
            payload += std::popcount(bits);
        }
    }
    if (begin < end) {
        if (const Index refused = pass.checks ? first_unacceptable(pass.g, begin, end) : end; refused < end)
            return refused;
        local_rest(scalars, end - begin, pass.g + begin, pass.e + begin, pass.kept + begin,
                   word_at(pass.last, begin), m, word_at(pass.current, begin), payload);
    }
    return end;
}

TRUESTEP_TARGET void extract(Index begin, Index end, float* e, const Mask& current, float* payload) {
    const float* const payload_end = payload + current.offset_of_chunk(end);
    payload += current.offset_of_chunk(begin);
    for (; begin + word_bits <= end; begin += word_bits) {
        const std::uint64_t bits = word_at(current, begin);
        extract_word(bits, e + begin, payload, payload_end);
        payload += std::popcount(bits);
    }
    if (begin < end)
        extract_rest(end - begin, e + begin, word_at(current, begin), payload);
}

TRUESTEP_TARGET void repack(Index begin, Index end, const Mask& last, const float* m, const Mask& current,
                            float* m_on_current) {
    for (; begin < end; begin += word_bits) {
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
    for (; begin + word_bits <= end; begin += word_bits) {
        float* const parameters = w + begin;
        prefetch_word(parameters);
        Score worst = 0;
        for (Index i = 0; i < word_bits; ++i) {
            parameters[i] = parameters[i] * s.decay;
            const Score score = std::bit_cast<Score>(parameters[i]) & greatest_score;
            worst = score > worst ? score : worst;
        }
        finite = worst < infinity && finite;
        const std::uint64_t bits = word_at(current, begin);
        if (bits != 0) {
            finite = update_word(s, bits, parameters, u) < infinity && finite;
            u += std::popcount(bits);
        }
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
