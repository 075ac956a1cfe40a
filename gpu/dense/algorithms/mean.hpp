// How gradients come together (section 35): sums, the mean, its norm, the clip. One block a tile, but for
// the norm one block a stretch.
#pragma once

#include <truestep/distributed/element.hpp>
#include <truestep/gpu/block.hpp>
#include <truestep/problem/tunable.hpp>

namespace truestep::gpu::dense {

/// Adds a gradient, or begins with it, and sets a flag if a value is not acceptable.
struct AddGradient {
    struct Arguments {
        Index size;
        const float* gradient;
        bool first;
        float* sum;
        std::uint32_t* not_acceptable;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            const float g = a.gradient[at];
            a.sum[at] = a.first ? g : a.sum[at] + g;
            if (!distributed::element::acceptable(g))
                block.set_bits(*a.not_acceptable, 1U);
        });
    }
};

/// Adds the ranks' parts in the order of the merges, and divides.
struct FoldParts {
    struct Arguments {
        Index size;
        const int* merges; ///< pairs: the second is added to the first
        Index count;       ///< of pairs
        Index stride;      ///< from one part to the next
        float divisor;
        float* parts; ///< rank after rank
        float* mean;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            for (Index i = 0; i < a.count; ++i) {
                float& left = a.parts[a.merges[2 * i] * a.stride + at];
                left = left + a.parts[a.merges[2 * i + 1] * a.stride + at];
            }
            a.mean[at] = a.parts[at] / a.divisor;
        });
    }
};

/// Begin and size of a stretch of at most a block of the norm.
struct Stretch {
    Index begin;
    Index size;
};

struct SquareSumsArguments {
    const float* values;
    const Stretch* stretches;
    double* sums;
};

/// The sum of squares of each stretch, in the norm's order: 256 lanes, then halves.
struct SquareSums {
    using Arguments = SquareSumsArguments;
    static constexpr Index lanes = problem::tunable<Index>("norm_lanes");
    struct Shared {
        double lane[lanes];
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Stretch stretch = a.stretches[block.index()];
        block.phase([&](int thread) {
            for (Index lane = thread; lane < lanes; lane += block.threads()) {
                double sum = 0.0;
                for (Index at = lane; at < stretch.size; at += lanes) {
                    const auto value = static_cast<double>(a.values[stretch.begin + at]);
                    sum = sum + value * value;
                }
                shared.lane[lane] = sum;
            }
        });
        for (Index width = lanes / 2; width > 0; width /= 2)
            block.phase([&](int thread) {
                for (Index lane = thread; lane < width; lane += block.threads())
                    shared.lane[lane] = shared.lane[lane] + shared.lane[lane + width];
            });
        block.phase([&](int thread) {
            if (thread == 0)
                a.sums[block.index()] = shared.lane[0];
        });
    }
};

/// to = factor * from, which may be the same vector.
struct Scale {
    struct Arguments {
        Index size;
        float factor;
        const float* from;
        float* to;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) { a.to[at] = a.factor * a.from[at]; });
    }
};

} // namespace truestep::gpu::dense
