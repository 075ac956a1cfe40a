// The passes of local.hpp. Included once by each variant, behind packed.hpp and as that is.

/// Where the bits of magnitudes are largest: below an infinity's where all are finite.
SCAPE_TARGET inline Score greater(Score worst, float value) {
    const Score score = std::bit_cast<Score>(value) & greatest_score;
    return score > worst ? score : worst;
}
constexpr Score score_of_infinity = 0x7f80'0000;

template <InnerRule rule>
SCAPE_TARGET inline bool inner_blocks(const Scalars& scalars, Index begin, Index end,
                                      const InnerStep& vectors) {
    const Scalars s = scalars;
    const auto [g, x, m, v, x_to, m_to, v_to] = vectors;
    float parameters[block_size];
    float moments[block_size];
    float squares[block_size];
    Score worst = 0;
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
        for (Index i = 0; i < count; i += word_bits) {
            prefetch_word(g + begin + i);
            prefetch_word(x + begin + i);
            if (rule != InnerRule::sgd)
                prefetch_word(m + begin + i);
            if (rule == InnerRule::adamw)
                prefetch_word(v + begin + i);
        }
        for (Index i = 0; i < count; ++i) {
            const float gradient = g[begin + i];
            float u = gradient;
            if (rule != InnerRule::sgd)
                moments[i] = element::moment(s, m[begin + i], gradient);
            if (rule == InnerRule::adams)
                u = element::direction_adam(s, moments[i], m[begin + i], gradient);
            if (rule == InnerRule::adams_momentum)
                u = element::direction_momentum(s, moments[i], m[begin + i], gradient);
            if (rule == InnerRule::adamw) {
                squares[i] = element::second_moment(s, v[begin + i], gradient);
                u = element::direction_adamw(s, moments[i], squares[i]);
            }
            parameters[i] = element::update(s, x[begin + i] * s.decay, u);
            worst = greater(worst, gradient);
        }
        std::memcpy(x_to + begin, parameters, bytes);
        if (rule != InnerRule::sgd)
            std::memcpy(m_to + begin, moments, bytes);
        if (rule == InnerRule::adamw)
            std::memcpy(v_to + begin, squares, bytes);
    }
    return worst < score_of_infinity;
}

SCAPE_TARGET bool inner(InnerRule rule, const Scalars& scalars, Index begin, Index end,
                        const InnerStep& vectors) {
    switch (rule) {
    case InnerRule::sgd:
        return inner_blocks<InnerRule::sgd>(scalars, begin, end, vectors);
    case InnerRule::adams:
        return inner_blocks<InnerRule::adams>(scalars, begin, end, vectors);
    case InnerRule::adams_momentum:
        return inner_blocks<InnerRule::adams_momentum>(scalars, begin, end, vectors);
    case InnerRule::adamw:
        break;
    }
    return inner_blocks<InnerRule::adamw>(scalars, begin, end, vectors);
}

SCAPE_TARGET void drift(float eta, Index begin, Index end, const float* theta, float* x) {
    float block[block_size];
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        for (Index i = 0; i < count; i += word_bits) {
            prefetch_word(theta + begin + i);
            prefetch_word(x + begin + i);
        }
        for (Index i = 0; i < count; ++i)
            block[i] = element::drift(eta, theta[begin + i], x[begin + i]);
        std::memcpy(x + begin, block, static_cast<std::size_t>(count) * sizeof(float));
    }
}

SCAPE_TARGET bool gossip(const Gossip& gossip, Index begin, Index end, const float* y, float* before,
                         float* theta) {
    const float a = gossip.a;
    const float gamma = gossip.gamma;
    float acc[block_size];
    float z[block_size];
    float next[block_size];
    Score worst = 0;
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
        const float* const own = y + begin;
        for (Index i = 0; i < count; i += word_bits) {
            prefetch_word(own + i);
            prefetch_word(before + begin + i);
            prefetch_word(theta + begin + i);
        }
        // z is y itself, in every bit, where nobody was met.
        std::memcpy(z, own, bytes);
        if (!gossip.met.empty()) {
            for (Index i = 0; i < count; ++i)
                acc[i] = 0.0F;
            for (const Met& met : gossip.met) {
                const float* const other = met.y + begin;
                const float lambda = met.lambda;
                for (Index i = 0; i < count; i += word_bits)
                    prefetch_word(other + i);
                for (Index i = 0; i < count; ++i)
                    acc[i] = element::pull(acc[i], lambda, own[i], other[i]);
            }
            for (Index i = 0; i < count; ++i)
                z[i] = element::gossiped(a, own[i], acc[i]);
        }
        const float* const moves = gossip.of_gossiped ? z : own;
        if (gossip.carries)
            for (Index i = 0; i < count; ++i)
                next[i] = element::carried(gamma, z[i], moves[i], before[begin + i]);
        else
            std::memcpy(next, z, bytes);
        for (Index i = 0; i < count; ++i)
            worst = greater(worst, next[i]);
        if (gossip.of_gossiped)
            std::memcpy(before + begin, z, bytes);
        std::memcpy(theta + begin, next, bytes);
    }
    return worst < score_of_infinity;
}
