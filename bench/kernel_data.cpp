// Makes the data of the kernel benchmark, and the plain loops that its times are compared with.
#include "kernel_data.hpp"

#include <bit>

#include <sys/mman.h>

namespace truestep::bench {

using distributed::host::Variant;

namespace {

#if defined(__x86_64__)
#define TRUESTEP_AVX2 __attribute__((target("avx2")))
#if defined(__clang__)
#define TRUESTEP_AVX512 __attribute__((target("avx512f")))
#else
#define TRUESTEP_AVX512 __attribute__((target("avx512f,prefer-vector-width=512")))
#endif
#endif

// Loops that any compiler vectorizes, written once and compiled for each instruction set.
#define TRUESTEP_FLOORS(suffix, target)                                                                    \
    target __attribute__((noinline)) void axpy_##suffix(float a, const float* __restrict g,                \
                                                        float* __restrict e, Index size) {                 \
        for (Index i = 0; i < size; ++i)                                                                   \
            e[i] = (a * g[i]) + e[i];                                                                      \
    }                                                                                                      \
    target __attribute__((noinline)) void scale_##suffix(float a, float* w, Index size) {                  \
        for (Index i = 0; i < size; ++i)                                                                   \
            w[i] = a * w[i];                                                                               \
    }                                                                                                      \
    target __attribute__((noinline)) std::uint32_t read_##suffix(const float* e, Index size) {             \
        std::uint32_t all = 0;                                                                             \
        for (Index i = 0; i < size; ++i)                                                                   \
            all |= std::bit_cast<std::uint32_t>(e[i]);                                                     \
        return all;                                                                                        \
    }

TRUESTEP_FLOORS(plain, )
#if defined(__x86_64__)
TRUESTEP_FLOORS(avx2, TRUESTEP_AVX2)
TRUESTEP_FLOORS(avx512, TRUESTEP_AVX512)
#endif

std::uint64_t random_bits(std::uint64_t& state) {
    state += 0x9e37'79b9'7f4a'7c15U;
    std::uint64_t x = state;
    x = (x ^ (x >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d0'49bb'1331'11ebU;
    return x ^ (x >> 31U);
}

} // namespace

Floors floors_of(Variant variant) {
#if defined(__x86_64__)
    if (variant == Variant::avx2)
        return {axpy_avx2, scale_avx2, read_avx2};
    if (variant == Variant::avx512)
        return {axpy_avx512, scale_avx512, read_avx512};
#endif
    static_cast<void>(variant);
    return {axpy_plain, scale_plain, read_plain};
}

float random_value(std::uint64_t& state) {
    const std::uint64_t bits = random_bits(state);
    float sum = 0.0F;
    for (unsigned part = 0; part < 4; ++part)
        sum += static_cast<float>((bits >> (16 * part)) & 0xffffU) * 0x1p-16F;
    return (sum - 2.0F) * 1.7F;
}

Floats::Floats(Index size) {
    constexpr std::size_t huge_page = std::size_t{2} << 20U;
    const std::size_t bytes = (static_cast<std::size_t>(size) * sizeof(float) / huge_page + 1) * huge_page;
    memory_.reset(static_cast<float*>(std::aligned_alloc(huge_page, bytes)));
    if (std::getenv("TRUESTEP_BENCH_HUGE_PAGES") != nullptr)
        madvise(memory_.get(), bytes, MADV_HUGEPAGE);
    std::fill_n(memory_.get(), size, 0.0F);
}

Rank::Rank(Index size, double density)
    : d(size), share(density), g(size), e(size), w(size), last(size), current(size), next(size) {
    std::uint64_t state = 1;
    for (Index i = 0; i < size; ++i) {
        g[i] = random_value(state);
        e[i] = random_value(state);
        w[i] = 1.0F + random_value(state);
    }
    const auto limit = static_cast<std::uint64_t>(density * 0x1p32);
    for (Index i = 0; i < size; ++i) {
        const std::uint64_t bits = random_bits(state);
        if ((bits >> 32U) < limit)
            last.set(i);
        if ((bits & 0xffff'ffffU) < limit)
            current.set(i);
    }
    last.count();
    current.count();
    m = std::make_unique<Floats>(last.selected() + 1);
    payload = std::make_unique<Floats>(current.selected() + 1);
    u = std::make_unique<Floats>(current.selected() + 1);
    for (Index i = 0; i < last.selected(); ++i)
        (*m)[i] = random_value(state);
    for (Index i = 0; i < current.selected(); ++i) {
        (*u)[i] = random_value(state);
        (*payload)[i] = random_value(state);
    }
    scalars.b1 = 0.9F;
    scalars.a1 = 1e-3F; // e keeps about its magnitude, however often the passes are repeated
    scalars.learning_rate = 1e-6F;
    scalars.decay = 0.99999F;
}

Rank& rank_for(const benchmark::State& state) {
    static std::unique_ptr<Rank> rank;
    const auto d = static_cast<Index>(state.range(0));
    const double density = 1.0 / static_cast<double>(state.range(1));
    if (rank == nullptr || rank->d != d || rank->share != density) {
        rank.reset();
        rank = std::make_unique<Rank>(d, density);
    }
    return *rank;
}

} // namespace truestep::bench
