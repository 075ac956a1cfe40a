// The passes of local.hpp. Each variant includes it once, behind packed.hpp and in the same way.

/// Keeps the largest bits of magnitudes, which are below an infinity's if all values are finite.
TRUESTEP_TARGET inline Score greater(Score worst, float value) {
    const Score score = std::bit_cast<Score>(value) & greatest_score;
    return score > worst ? score : worst;
}
constexpr Score score_of_infinity = 0x7f80'0000;

template <InnerRule rule>
TRUESTEP_TARGET inline Score inner_word(const Scalars& s, Index begin, Index count,
                                        const InnerStep& vectors, Score worst) {
    const auto [g, x, m, v, x_to, m_to, v_to] = vectors;
    TRUESTEP_APART
    for (Index i = begin; i < begin + count; ++i) {
        const float gradient = g[i];
        float parameter = x[i];
        float moment = rule == InnerRule::sgd ? 0.0F : m[i];
        float square = rule == InnerRule::adamw ? v[i] : 0.0F;
        element::inner<rule>(s, gradient, parameter, moment, square);
        x_to[i] = parameter;
        if (rule != InnerRule::sgd)
            m_to[i] = moment;
        if (rule == InnerRule::adamw)
            v_to[i] = square;
        worst = greater(worst, gradient);
    }
    return worst;
}

template <InnerRule rule>
TRUESTEP_TARGET inline bool inner_words(const Scalars& scalars, Index begin, Index end,
                                        const InnerStep& vectors) {
    const Scalars s = scalars; // a copy, so that no store can be to it
    Score worst = 0;
    for (; begin + word_bits <= end; begin += word_bits) {
        prefetch_near(vectors.g + begin);
        prefetch_near(vectors.x + begin);
        if (rule != InnerRule::sgd)
            prefetch_near(vectors.m + begin);
        if (rule == InnerRule::adamw)
            prefetch_near(vectors.v + begin);
        worst = inner_word<rule>(s, begin, word_bits, vectors, worst);
    }
    return inner_word<rule>(s, begin, end - begin, vectors, worst) < score_of_infinity;
}

TRUESTEP_TARGET bool inner(InnerRule rule, const Scalars& scalars, Index begin, Index end,
                           const InnerStep& vectors) {
    switch (rule) {
    case InnerRule::sgd:
        return inner_words<InnerRule::sgd>(scalars, begin, end, vectors);
    case InnerRule::adams:
        return inner_words<InnerRule::adams>(scalars, begin, end, vectors);
    case InnerRule::adams_momentum:
        return inner_words<InnerRule::adams_momentum>(scalars, begin, end, vectors);
    case InnerRule::adamw:
        break;
    }
    return inner_words<InnerRule::adamw>(scalars, begin, end, vectors);
}

TRUESTEP_TARGET inline void drift_word(float eta, Index count, const float* theta, float* x) {
    TRUESTEP_APART
    for (Index i = 0; i < count; ++i)
        x[i] = element::drift(eta, theta[i], x[i]);
}

TRUESTEP_TARGET void drift(float eta, Index begin, Index end, const float* theta, float* x) {
    for (; begin + word_bits <= end; begin += word_bits) {
        prefetch_near(theta + begin);
        prefetch_near(x + begin);
        drift_word(eta, word_bits, theta + begin, x + begin);
    }
    drift_word(eta, end - begin, theta + begin, x + begin);
}

/// How many neighbours were met: none, one, whose y needs no sum, or more.
enum class Meeting : std::uint8_t { nobody, one, many };

template <Meeting meeting, bool carries, bool of_gossiped>
TRUESTEP_TARGET inline Score gossip_word(const Gossip& gossip, Index begin, Index count, const float* y,
                                         float* before, float* theta, Score worst) {
    const float a = gossip.a;
    const float gamma = gossip.gamma;
    const float lambda = meeting == Meeting::one ? gossip.met[0].lambda : 0.0F;
    const float* const other = meeting == Meeting::one ? gossip.met[0].y + begin : nullptr;
    float acc[word_bits];
    if (meeting == Meeting::many) {
        for (Index i = 0; i < count; ++i)
            acc[i] = 0.0F;
        for (const NeighbourVector& met : gossip.met) {
            const float* const theirs = met.y + begin;
            for (Index i = 0; i < count; ++i)
                acc[i] = element::pull(acc[i], met.lambda, y[begin + i], theirs[i]);
        }
    }
    y += begin;
    before += begin;
    theta += begin;
    TRUESTEP_APART
    for (Index i = 0; i < count; ++i) {
        float z = y[i]; // the same bits if no neighbour was met
        if (meeting == Meeting::one)
            z = element::gossiped(a, y[i], element::pull(0.0F, lambda, y[i], other[i]));
        if (meeting == Meeting::many)
            z = element::gossiped(a, y[i], acc[i]);
        const float next = carries ? element::carried(gamma, z, of_gossiped ? z : y[i], before[i]) : z;
        if (of_gossiped)
            before[i] = z;
        theta[i] = next;
        worst = greater(worst, next);
    }
    return worst;
}

template <Meeting meeting, bool carries, bool of_gossiped>
TRUESTEP_TARGET inline bool gossip_words(const Gossip& gossip, Index begin, Index end, const float* y,
                                         float* before, float* theta) {
    Score worst = 0;
    for (; begin + word_bits <= end; begin += word_bits) {
        prefetch_near(y + begin);
        prefetch_near(before + begin);
        prefetch_near(theta + begin);
        for (const NeighbourVector& met : gossip.met)
            prefetch_near(met.y + begin);
        worst =
            gossip_word<meeting, carries, of_gossiped>(gossip, begin, word_bits, y, before, theta, worst);
    }
    return gossip_word<meeting, carries, of_gossiped>(gossip, begin, end - begin, y, before, theta, worst) <
           score_of_infinity;
}

template <Meeting meeting>
TRUESTEP_TARGET inline bool gossip_of(const Gossip& gossip, Index begin, Index end, const float* y,
                                      float* before, float* theta) {
    if (gossip.of_gossiped)
        return gossip.carries ? gossip_words<meeting, true, true>(gossip, begin, end, y, before, theta)
                              : gossip_words<meeting, false, true>(gossip, begin, end, y, before, theta);
    return gossip.carries ? gossip_words<meeting, true, false>(gossip, begin, end, y, before, theta)
                          : gossip_words<meeting, false, false>(gossip, begin, end, y, before, theta);
}

TRUESTEP_TARGET bool gossip(const Gossip& gossip, Index begin, Index end, const float* y, float* before,
                            float* theta) {
    if (gossip.met.empty())
        return gossip_of<Meeting::nobody>(gossip, begin, end, y, before, theta);
    if (gossip.met.size() == 1)
        return gossip_of<Meeting::one>(gossip, begin, end, y, before, theta);
    return gossip_of<Meeting::many>(gossip, begin, end, y, before, theta);
}
