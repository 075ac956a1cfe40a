#pragma once

#include <truestep/distributed/local.hpp>

#include "inner.hpp"

// What a round does once the inner steps are over: drift, gossip, momentum. One block a tile.

namespace truestep::gpu::gasloc {

using distributed::NeighbourVector;

/// The arithmetic of section 5.
struct MeetingArithmetic {
    TRUESTEP_BLOCK static float drift(float eta, float theta, float x) {
        return distributed::element::drift(eta, theta, x);
    }
};

struct DriftArguments {
    Index size;
    bool drifts; ///< else y is theta, the same bits
    float eta;
    const float* theta;
    float* x; ///< becomes y
};

/// The drift of section 13.3.
template <class Arithmetic>
struct DriftWith {
    using Arguments = DriftArguments;
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.size);
        const bool aligned = is_aligned(a.theta) && is_aligned(a.x);
        block.phase([&](int thread) {
            Quad theta[quads_in_flight]{};
            Quad x[quads_in_flight]{};
            for_quads(
                block, thread, begin, end,
                [&](int number, Index at) {
                    theta[number] = load(a.theta, at, a.size, aligned);
                    if (a.drifts)
                        x[number] = load(a.x, at, a.size, aligned);
                },
                [&](int number, Index at) {
                    Quad y = theta[number];
                    if (a.drifts) {
                        TRUESTEP_UNROLL
                        for (Index i = 0; i < quad_size; ++i)
                            y.value[i] = Arithmetic::drift(a.eta, y.value[i], x[number].value[i]);
                    }
                    store(a.x, at, a.size, aligned, y);
                });
        });
    }
};

using Drift = DriftWith<MeetingArithmetic>;

struct MeetArguments {
    Index size;
    const NeighbourVector* met; ///< ascending by worker, in the machine's memory
    Index met_count;
    float a;
    float gamma;
    bool carries;     ///< gamma is not 0
    bool of_gossiped; ///< the momentum is made of z, which goes to `before`; else of y
    const float* y;
    float* before;
    float* theta;
    std::uint32_t* not_finite; ///< set where a theta is not
};

/// Gossip and momentum, sections 13.4 and 13.5, in one pass.
struct Meet {
    using Arguments = MeetArguments;
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.size);
        const Index stride = quad_size * block.threads();
        const bool aligned = is_aligned(a.y) && is_aligned(a.before) && is_aligned(a.theta);
        block.phase([&](int thread) {
            bool all_finite = true;
            for (Index first = begin + quad_size * thread; first < end; first += stride * quads_in_flight) {
                // The quads of all neighbours are loaded together.
                const auto each = [&](const auto& work) {
                    TRUESTEP_UNROLL
                    for (int number = 0; number < quads_in_flight; ++number)
                        if (first + number * stride < end)
                            work(number, first + number * stride);
                };
                Quad y[quads_in_flight]{};
                Quad sum[quads_in_flight]{};
                each([&](int number, Index at) { y[number] = load(a.y, at, a.size, aligned); });
                for (Index i = 0; i < a.met_count; ++i) {
                    const NeighbourVector met = a.met[i];
                    const bool met_aligned = is_aligned(met.y);
                    Quad other[quads_in_flight]{};
                    each([&](int number, Index at) {
                        other[number] = load(met.y, at, a.size, met_aligned);
                    });
                    each([&](int number, Index) {
                        pull(met.lambda, y[number], other[number], sum[number]);
                    });
                }
                each([&](int number, Index at) {
                    all_finite = carry(a, at, aligned, y[number], sum[number]) && all_finite;
                });
            }
            if (!all_finite)
                block.set_bits(*a.not_finite, 1U);
        });
    }

  private:
    TRUESTEP_BLOCK static void pull(float lambda, const Quad& y, const Quad& other, Quad& sum) {
        TRUESTEP_UNROLL
        for (Index i = 0; i < quad_size; ++i)
            sum.value[i] = distributed::element::pull(sum.value[i], lambda, y.value[i], other.value[i]);
    }

    /// Computes z, and theta from it. Returns false if theta is not finite.
    TRUESTEP_BLOCK static bool carry(const Arguments& a, Index at, bool aligned, const Quad& y,
                                     const Quad& sum) {
        const Quad before = a.carries ? load(a.before, at, a.size, aligned) : Quad{};
        Quad z = y; // the same bits if the worker met no other
        Quad theta{};
        bool all_finite = true;
        TRUESTEP_UNROLL
        for (Index i = 0; i < quad_size; ++i) {
            if (a.met_count > 0)
                z.value[i] = distributed::element::gossiped(a.a, y.value[i], sum.value[i]);
            const float moves = a.of_gossiped ? z.value[i] : y.value[i];
            theta.value[i] =
                a.carries ? distributed::element::carried(a.gamma, z.value[i], moves, before.value[i])
                          : z.value[i];
            all_finite = is_finite(theta.value[i]) && all_finite;
        }
        if (a.of_gossiped)
            store(a.before, at, a.size, aligned, z);
        store(a.theta, at, a.size, aligned, theta);
        return all_finite;
    }
};

} // namespace truestep::gpu::gasloc
