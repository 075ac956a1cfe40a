// The loops over packed vectors, and the others that the compiler vectorizes by itself. Each
// variant includes it once, within its anonymous namespace, with TRUESTEP_TARGET naming the
// instruction set; hence no include guard.
//
// Results pass through a small block that cannot overlap an argument: so a result may overwrite an
// argument, and the compiler need not check whether it does.

constexpr Index word_bits = Mask::word_bits;
constexpr Index block_size = problem::tunable<Index>("block_size");

/// Prefetches the word that a stream will reach a page further on. The hardware follows a stream
/// only to the end of its page, and with more work per cache line than a plain loop has, too few
/// lines would be under way.
TRUESTEP_TARGET inline void prefetch_word(const float* stream, std::uintptr_t distance = 4096) {
    constexpr std::uintptr_t line = 64;
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(stream) + distance;
    for (std::uintptr_t offset = 0; offset < word_bits * sizeof(float); offset += line)
        __builtin_prefetch(reinterpret_cast<const void*>(address + offset));
}

// Where a coordinate has little arithmetic, a block costs a tenth of a plain loop's speed. Such
// passes write to an argument's place, or to a separate vector, coordinate by coordinate: no
// iteration reads what another writes, and the pragma tells the compiler so.
#if defined(__clang__)
#define TRUESTEP_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define TRUESTEP_APART _Pragma("GCC ivdep")
#endif

/// Like prefetch_word(), but nearer: with a few streams and short iterations, a page ahead is
/// measurably too early.
TRUESTEP_TARGET inline void prefetch_near(const float* stream) {
    prefetch_word(stream, 1024);
}

TRUESTEP_TARGET Index first_unacceptable(const float* g, Index begin, Index end) {
    constexpr auto greatest = static_cast<Score>(std::bit_cast<std::uint32_t>(element::greatest_gradient));
    while (begin < end) {
        const Index block_end = begin + block_size < end ? begin + block_size : end;
        for (Index i = begin; i < block_end; i += word_bits)
            prefetch_word(g + i);
        Score worst = 0; // a NaN's bits are above an infinity's, and those above every number's
        for (Index i = begin; i < block_end; ++i) {
            const Score score = std::bit_cast<Score>(g[i]) & greatest_score;
            worst = score > worst ? score : worst;
        }
        if (worst > greatest)
            for (Index i = begin; i < block_end; ++i)
                if (!element::acceptable(g[i]))
                    return i;
        begin = block_end;
    }
    return end;
}

TRUESTEP_TARGET void fold(const Scalars& scalars, int workers, Index begin, Index end, const float* parts,
                          Index stride, float* mean) {
    const float divisor = scalars.workers;
    // For a power of two both are exact except for the one rounding, and a division takes several
    // times as long.
    const bool is_power = (std::bit_cast<std::uint32_t>(divisor) & 0x007f'ffffU) == 0;
    const float factor = 1.0F / divisor;
    float sum[block_size];
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        const float* const first = parts + begin;
        for (Index i = 0; i < count; ++i)
            sum[i] = first[i];
        for (int rank = 1; rank < workers; ++rank) {
            const float* const part = parts + static_cast<Index>(rank) * stride + begin;
            for (Index i = 0; i < count; ++i)
                sum[i] += part[i];
        }
        float* const result = mean + begin;
        if (is_power)
            for (Index i = 0; i < count; ++i)
                result[i] = sum[i] * factor;
        else
            for (Index i = 0; i < count; ++i)
                result[i] = sum[i] / divisor;
    }
}

TRUESTEP_TARGET void to_bf16(Index begin, Index end, float* c, std::uint16_t* sent, float* lost) {
    float rounded[block_size];
    float rest[block_size];
    std::uint16_t bits[block_size];
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        for (Index i = 0; i < count; ++i) {
            bits[i] = element::to_bf16(c[begin + i]);
            rounded[i] = element::from_bf16(bits[i]);
            rest[i] = c[begin + i] - rounded[i];
        }
        const auto size = static_cast<std::size_t>(count);
        std::memcpy(c + begin, rounded, size * sizeof(float));
        std::memcpy(lost + begin, rest, size * sizeof(float));
        std::memcpy(sent + begin, bits, size * sizeof(std::uint16_t));
    }
}

/// Converts each part to fp32 a block at a time, and adds it like every payload.
TRUESTEP_TARGET void fold_bf16(const Scalars& scalars, int workers, Index begin, Index end,
                               const std::uint16_t* parts, Index stride, float* mean) {
    float sum[block_size];
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        for (Index i = 0; i < count; ++i)
            sum[i] = element::from_bf16(parts[begin + i]);
        for (int rank = 1; rank < workers; ++rank) {
            const std::uint16_t* const part = parts + static_cast<Index>(rank) * stride + begin;
            for (Index i = 0; i < count; ++i)
                sum[i] += element::from_bf16(part[i]);
        }
        fold(scalars, 1, 0, count, sum, 0, mean + begin);
    }
}

TRUESTEP_TARGET void to_e5m2(const element::E5m2Scale& given, Index begin, Index end, float* c,
                             std::uint8_t* sent, float* lost) {
    const element::E5m2Scale scale = given;
    float rounded[block_size];
    float rest[block_size];
    std::uint8_t bits[block_size];
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        for (Index i = 0; i < count; ++i) {
            bits[i] = element::to_e5m2(scale, c[begin + i]);
            rounded[i] = element::from_e5m2(scale, bits[i]);
            rest[i] = c[begin + i] - rounded[i];
        }
        const auto size = static_cast<std::size_t>(count);
        std::memcpy(c + begin, rounded, size * sizeof(float));
        std::memcpy(lost + begin, rest, size * sizeof(float));
        std::memcpy(sent + begin, bits, size);
    }
}

TRUESTEP_TARGET void fold_e5m2(const Scalars& scalars, const element::E5m2Scale& given, int workers,
                               Index begin, Index end, const std::uint8_t* parts, Index stride,
                               float* mean) {
    const element::E5m2Scale scale = given;
    float sum[block_size];
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        for (Index i = 0; i < count; ++i)
            sum[i] = element::from_e5m2(scale, parts[begin + i]);
        for (int rank = 1; rank < workers; ++rank) {
            const std::uint8_t* const part = parts + static_cast<Index>(rank) * stride + begin;
            for (Index i = 0; i < count; ++i)
                sum[i] += element::from_e5m2(scale, part[i]);
        }
        fold(scalars, 1, 0, count, sum, 0, mean + begin);
    }
}

TRUESTEP_TARGET std::uint32_t greatest_score_of(Index begin, Index end, const float* c) {
    Score greatest = 0;
    for (Index i = begin; i < end; ++i) {
        const Score score = std::bit_cast<Score>(c[i]) & greatest_score;
        greatest = score > greatest ? score : greatest;
    }
    return static_cast<std::uint32_t>(greatest);
}

TRUESTEP_TARGET void reconstruct(const Scalars& scalars, Index begin, Index end, const float* M,
                                 const float* m, float* ghat) {
    const Scalars s = scalars;
    float block[block_size];
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        for (Index i = 0; i < count; ++i)
            block[i] = element::reconstruct(s, M[begin + i], m[begin + i]);
        std::memcpy(ghat + begin, block, static_cast<std::size_t>(count) * sizeof(float));
    }
}

TRUESTEP_TARGET void square_sums(Index first, Index last, const float* ghat, Index size, double* sums) {
    constexpr Index lane_count = problem::tunable<Index>("norm_lanes");
    for (Index block = first; block < last; ++block) {
        double lanes[lane_count] = {};
        const Index begin = block * norm_block;
        const Index end = begin + norm_block < size ? begin + norm_block : size;
        for (Index row = begin; row < end; row += lane_count) {
            const Index count = lane_count < end - row ? lane_count : end - row;
            for (Index lane = 0; lane < count; ++lane) {
                const double value = static_cast<double>(ghat[row + lane]);
                lanes[lane] += value * value;
            }
        }
        for (Index width = lane_count / 2; width > 0; width /= 2)
            for (Index lane = 0; lane < width; ++lane)
                lanes[lane] += lanes[lane + width];
        sums[block] = lanes[0];
    }
}

TRUESTEP_TARGET void clip(const Scalars& scalars, float s, Index begin, Index end, const float* m,
                          float* ghat, float* M) {
    const Scalars values = scalars;
    float clipped[block_size];
    float moments[block_size];
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        for (Index i = 0; i < count; ++i) {
            clipped[i] = ghat[begin + i] * s;
            moments[i] = element::moment(values, m[begin + i], clipped[i]);
        }
        std::memcpy(ghat + begin, clipped, static_cast<std::size_t>(count) * sizeof(float));
        std::memcpy(M + begin, moments, static_cast<std::size_t>(count) * sizeof(float));
    }
}

TRUESTEP_TARGET void directions(problem::BiasCorrection correction, const Scalars& scalars, Index begin,
                                Index end, const float* M, const float* m, const float* ghat, float* u) {
    const Scalars s = scalars;
    const bool momentum = correction == problem::BiasCorrection::momentum;
    float block[block_size];
    for (; begin < end; begin += block_size) {
        const Index count = block_size < end - begin ? block_size : end - begin;
        if (momentum)
            for (Index i = 0; i < count; ++i)
                block[i] = element::direction_momentum(s, M[begin + i], m[begin + i], ghat[begin + i]);
        else
            for (Index i = 0; i < count; ++i)
                block[i] = element::direction_adam(s, M[begin + i], m[begin + i], ghat[begin + i]);
        std::memcpy(u + begin, block, static_cast<std::size_t>(count) * sizeof(float));
    }
}

/// Section 3 with a given mean g: M replaces m, then the decay, u, and w. The greatest score is
/// returned, to detect a non-finite parameter. One pass: every vector is read and written once.
template <bool momentum>
TRUESTEP_TARGET inline Score dense_word(const Scalars& s, Index count, const float* g, float* m, float* w,
                                        Score worst) {
    TRUESTEP_APART
    for (Index i = 0; i < count; ++i) {
        const float last = m[i];
        const float M = element::moment(s, last, g[i]);
        const float u = momentum ? element::direction_momentum(s, M, last, g[i])
                                 : element::direction_adam(s, M, last, g[i]);
        const float parameter = element::update(s, w[i] * s.decay, u);
        const Score score = std::bit_cast<Score>(parameter) & greatest_score;
        worst = score > worst ? score : worst;
        m[i] = M;
        w[i] = parameter;
    }
    return worst;
}

template <bool momentum>
TRUESTEP_TARGET inline bool dense_words(const Scalars& scalars, Index size, const float* g, float* m,
                                        float* w) {
    const Scalars s = scalars;
    constexpr Score infinity = 0x7f80'0000;
    Score worst = 0;
    for (; size >= word_bits; size -= word_bits) {
        prefetch_near(m);
        prefetch_near(w);
        worst = dense_word<momentum>(s, word_bits, g, m, w, worst);
        g += word_bits;
        m += word_bits;
        w += word_bits;
    }
    return dense_word<momentum>(s, size, g, m, w, worst) < infinity;
}

TRUESTEP_TARGET bool dense(problem::BiasCorrection correction, const Scalars& scalars, Index size,
                           const float* g, float* m, float* w) {
    return correction == problem::BiasCorrection::momentum ? dense_words<true>(scalars, size, g, m, w)
                                                           : dense_words<false>(scalars, size, g, m, w);
}

TRUESTEP_TARGET bool finite(const float* values, Index size) {
    constexpr Score infinity = 0x7f80'0000;
    Score worst = 0;
    for (Index i = 0; i < size; ++i) {
        const Score score = std::bit_cast<Score>(values[i]) & greatest_score;
        worst = score > worst ? score : worst;
    }
    return worst < infinity;
}

TRUESTEP_TARGET Index count_at_least(const Score* scores, Index size, Score threshold) {
    constexpr Index stride = Index{1}
                             << 20; // a count of 32 bits suffices within it, and vectors hold twice as many
    Index total = 0;
    for (Index begin = 0; begin < size; begin += stride) {
        const Index count = stride < size - begin ? stride : size - begin;
        std::int32_t block = 0;
        for (Index i = 0; i < count; ++i)
            block += scores[begin + i] >= threshold ? 1 : 0;
        total += block;
    }
    return total;
}
