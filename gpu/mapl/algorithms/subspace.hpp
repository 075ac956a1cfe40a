#pragma once

#include "algorithms/rows.hpp"

// SPEL without its products (section 24). One block a tile.

namespace truestep::gpu::mapl::boundary {

/// to = a x + b y; `to` may be x or y.
struct Blend {
    struct Arguments {
        Index size;
        float a;
        const float* x;
        float b;
        const float* y;
        float* to;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) { a.to[at] = a.a * a.x[at] + a.b * a.y[at]; });
    }
};

/// c0 I + c1 S + c2 S^2, r x r, from S and c2 S^2; it replaces c2 S^2.
struct Polynomial {
    struct Arguments {
        Index rank;
        float c0;
        float c1;
        const float* square;
        float* inner;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.rank * a.rank, a.rank, [&](Index at, Index row, Index column) {
            const float sum = a.inner[at] + a.c1 * a.square[at];
            a.inner[at] = row == column ? sum + a.c0 : sum;
        });
    }
};

/// (S + S^T) / 2, r x r.
struct Symmetrize {
    struct Arguments {
        Index rank;
        const float* square;
        float* to;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.rank * a.rank, a.rank, [&](Index at, Index row, Index column) {
            a.to[at] = 0.5F * (a.square[at] + a.square[column * a.rank + row]);
        });
    }
};

struct SquareSumsArguments {
    Index size;
    const float* values;
    double* sums; ///< of each tile
};

/// The sum of the squares of a tile's values, in one order for any number of threads: four values,
/// then halves.
struct SquareSums {
    using Arguments = SquareSumsArguments;
    static constexpr Index each = 4;
    static constexpr Index parts = tile / each;
    struct Shared {
        double sums[parts];
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = block.index() * tile;
        block.phase([&](int thread) {
            for (Index part = thread; part < parts; part += block.threads()) {
                double sum = 0.0;
                TRUESTEP_UNROLL
                for (Index i = 0; i < each; ++i) {
                    const Index at = begin + part * each + i;
                    const double value = at < a.size ? static_cast<double>(a.values[at]) : 0.0;
                    sum += value * value;
                }
                shared.sums[part] = sum;
            }
        });
        for (Index half = parts / 2; half > 0; half /= 2)
            block.phase([&](int thread) {
                for (Index part = thread; part < half; part += block.threads())
                    shared.sums[part] += shared.sums[part + half];
            });
        block.phase([&](int thread) {
            if (thread == 0)
                a.sums[block.index()] = shared.sums[0];
        });
    }
};

/// Multiplies values by a double, and rounds once.
struct ScaleBy {
    struct Arguments {
        Index size;
        double scale;
        float* values;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            a.values[at] = static_cast<float>(static_cast<double>(a.values[at]) * a.scale);
        });
    }
};

} // namespace truestep::gpu::mapl::boundary
