#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <benchmark/benchmark.h>

#include <truestep/distributed/kernels.hpp>

// The data of bench_kernels: a rank's vectors and masks, and the floors that its passes are
// compared with.

namespace truestep::bench {

using distributed::Index;

struct Floors {
    void (*axpy)(float a, const float* g, float* e, Index size);
    void (*scale)(float a, float* w, Index size);
    std::uint32_t (*read)(const float* e, Index size);
};

Floors floors_of(distributed::host::Variant variant);

/// Memory in large pages if the environment requests it; the kernels do not care.
class Floats {
  public:
    explicit Floats(Index size);
    [[nodiscard]] float* data() const { return memory_.get(); }
    float& operator[](Index i) const { return memory_.get()[i]; }

  private:
    struct Free {
        void operator()(float* memory) const { std::free(memory); } // NOLINT: of aligned_alloc
    };
    std::unique_ptr<float, Free> memory_;
};

/// Approximately normal: the sum of four uniform numbers.
float random_value(std::uint64_t& state);

/// All data of a rank at one size and density. Kept while rows request the same.
struct Rank {
    Rank(Index size, double density);

    [[nodiscard]] Index shard() const { return d / 8; }
    [[nodiscard]] Index k() const {
        return std::max<Index>(1, static_cast<Index>(share * static_cast<double>(shard())));
    }

    void local_pass(Index end) {
        static_cast<void>(distributed::host::local_pass(
            scalars, 0, end, {g.data(), e.data(), e.data(), last, m->data(), current, payload->data()}));
    }
    /// The same pass, which also looks for the rank's part of the coming mask, as a step's does
    /// when the last thresholds tell where to look.
    void watching_pass() {
        const distributed::host::SelectionAhead::SegmentRequest wanted{
            0, shard(), k(), guess.is_good() ? guess : distributed::host::Guess{}};
        const std::array<Index, 2> cuts{0, d};
        ahead.begin({&wanted, 1}, {next.words(), 0}, cuts);
        static_cast<void>(distributed::host::local_pass(
            scalars, 0, d,
            {g.data(), e.data(), e.data(), last, m->data(), current, payload->data(), ahead.watches(0)}));
    }
    /// The rest of the selection. Returns true if it had to read the shard again.
    bool take_watched() {
        guess.learn(ahead.take(0, e.data(), current, payload->data()));
        return ahead.missed() > 0;
    }
    void update() {
        if (!distributed::host::update(scalars, 0, d, w.data(), current, u->data()))
            std::abort();
    }
    void select(std::uint32_t& threshold) {
        distributed::host::Selector::select(0, shard(), k(), e.data(), current, payload->data(), next,
                                            threshold);
    }

    Index d;
    double share;
    Floats g;
    Floats e;
    Floats w;
    std::unique_ptr<Floats> m;
    std::unique_ptr<Floats> payload;
    std::unique_ptr<Floats> u;
    distributed::Mask last;
    distributed::Mask current;
    distributed::Mask next;
    distributed::Scalars scalars;
    distributed::host::Guess guess;
    distributed::host::SelectionAhead ahead;
};

Rank& rank_for(const benchmark::State& state);

} // namespace truestep::bench
