// Compares GASLoC's passes over memory with plain loops that move the same bytes: drift (12 a
// parameter), gossip with one neighbour and momentum (16), an inner step of AdamW (28), of AdamS
// (20) and of SGD (12). A pass and its loop take turns in one process, since machines are shared
// and noisy; the result is the ratio of the medians. One thread.
#include <cstddef>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/distributed/kernels.hpp>

#include "measure.hpp"

namespace {

using namespace truestep::distributed;
using namespace truestep::bench;
using host::Index;

#if defined(__x86_64__) && defined(__clang__)
#define TRUESTEP_BEST __attribute__((target("avx512f"), noinline))
#elif defined(__x86_64__)
#define TRUESTEP_BEST __attribute__((target("avx512f,prefer-vector-width=512"), noinline))
#else
#define TRUESTEP_BEST __attribute__((noinline))
#endif
#define TRUESTEP_PLAIN __attribute__((noinline))

// Loops that any compiler vectorizes, and that only move data.
#define TRUESTEP_FLOORS(suffix, target)                                                                    \
    target void two_to_one_##suffix(const float* __restrict a, float* __restrict b, Index size) {          \
        for (Index i = 0; i < size; ++i)                                                                   \
            b[i] = a[i] + b[i];                                                                            \
    }                                                                                                      \
    target void three_to_one_##suffix(const float* __restrict a, const float* __restrict b,                \
                                      const float* __restrict c, float* __restrict to, Index size) {       \
        for (Index i = 0; i < size; ++i)                                                                   \
            to[i] = (a[i] + b[i]) + c[i];                                                                  \
    }                                                                                                      \
    target void three_to_two_##suffix(const float* __restrict a, float* __restrict b, float* __restrict c, \
                                      Index size) {                                                        \
        for (Index i = 0; i < size; ++i) {                                                                 \
            const float sum = a[i] + b[i];                                                                 \
            b[i] = sum;                                                                                    \
            c[i] = c[i] - sum;                                                                             \
        }                                                                                                  \
    }                                                                                                      \
    target void four_to_three_##suffix(const float* __restrict a, float* __restrict b,                     \
                                       float* __restrict c, float* __restrict d, Index size) {             \
        for (Index i = 0; i < size; ++i) {                                                                 \
            const float sum = a[i] + b[i];                                                                 \
            b[i] = sum;                                                                                    \
            c[i] = c[i] + a[i];                                                                            \
            d[i] = d[i] - sum;                                                                             \
        }                                                                                                  \
    }

TRUESTEP_FLOORS(plain, TRUESTEP_PLAIN)
TRUESTEP_FLOORS(best, TRUESTEP_BEST)

/// Whether the machine has the instructions of the wider loops.
bool wide() {
    return host::supported_variants().back() == host::Variant::avx512;
}

std::vector<float> some(const benchmark::State& state, float value) {
    std::vector<float> values(static_cast<std::size_t>(state.range(0)), value);
    return values;
}

void drift_row(benchmark::State& state) {
    const Index d = state.range(0);
    const std::vector<float> theta = some(state, 1.0F);
    std::vector<float> x = some(state, 1.0F);
    take_turns(
        state, 12.0 * static_cast<double>(d),
        [&] { (wide() ? two_to_one_best : two_to_one_plain)(theta.data(), x.data(), d); },
        [&] { host::drift(0.5F, 0, d, theta.data(), x.data()); });
}

void gossip_row(benchmark::State& state) {
    const Index d = state.range(0);
    const std::vector<float> y = some(state, 1.0F);
    const std::vector<float> other = some(state, 1.0F);
    std::vector<float> before = some(state, 1.0F);
    std::vector<float> theta = some(state, 1.0F);
    const NeighbourVector met{other.data(), 1.0F};
    const Gossip gossip{{&met, 1}, 0.5F, 0.5F, true, false};
    take_turns(
        state, 16.0 * static_cast<double>(d),
        [&] {
            (wide() ? three_to_one_best : three_to_one_plain)(y.data(), other.data(), before.data(),
                                                              theta.data(), d);
        },
        [&] {
            benchmark::DoNotOptimize(host::gossip(gossip, 0, d, y.data(), before.data(), theta.data()));
        });
}

template <InnerRule rule>
void inner_row(benchmark::State& state) {
    const Index d = state.range(0);
    const std::vector<float> g = some(state, 0.5F);
    std::vector<float> x = some(state, 1.0F);
    std::vector<float> m = some(state, 0.25F);
    std::vector<float> v = some(state, 0.25F);
    Scalars s;
    s.b1 = 0.9F;
    s.a1 = 0.1F;
    s.b2 = 0.95F;
    s.a2 = 0.05F;
    s.epsilon = 1e-8F;
    s.learning_rate = 1e-3F;
    s.decay = 0.9999F;
    s.inv1 = 1.0F;
    s.invs2 = 1.0F;
    const host::InnerStep step{g.data(), x.data(), m.data(), v.data(), x.data(), m.data(), v.data()};
    constexpr double bytes = rule == InnerRule::sgd ? 12.0 : rule == InnerRule::adamw ? 28.0 : 20.0;
    take_turns(
        state, bytes * static_cast<double>(d),
        [&] {
            if constexpr (rule == InnerRule::sgd)
                (wide() ? two_to_one_best : two_to_one_plain)(g.data(), x.data(), d);
            else if constexpr (rule == InnerRule::adamw)
                (wide() ? four_to_three_best : four_to_three_plain)(g.data(), x.data(), m.data(), v.data(),
                                                                    d);
            else
                (wide() ? three_to_two_best : three_to_two_plain)(g.data(), x.data(), m.data(), d);
        },
        [&] { benchmark::DoNotOptimize(host::inner(rule, s, 0, d, step)); });
}

void rows(benchmark::internal::Benchmark* row) {
    row->ArgName("d")->Arg(1 << 22)->Arg(1 << 26)->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(drift_row)->Name("drift")->Apply(rows);
BENCHMARK(gossip_row)->Name("gossip")->Apply(rows);
BENCHMARK(inner_row<InnerRule::sgd>)->Name("inner_sgd")->Apply(rows);
BENCHMARK(inner_row<InnerRule::adams>)->Name("inner_adams")->Apply(rows);
BENCHMARK(inner_row<InnerRule::adamw>)->Name("inner_adamw")->Apply(rows);

} // namespace
