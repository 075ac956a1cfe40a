#pragma once

#include <truestep/gpu/block.hpp>

namespace truestep::gpu {

/// sum += values, for reductions in the communicator's own order. One block a tile.
struct AddTo {
    struct Arguments {
        const float* values;
        Index size;
        float* sum;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) { a.sum[at] = a.sum[at] + a.values[at]; });
    }
};

} // namespace truestep::gpu
