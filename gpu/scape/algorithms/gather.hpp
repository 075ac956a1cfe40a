#pragma once

#include <truestep/distributed/element.hpp>

#include "mask.hpp"

// Gathers c on the coming mask, before the step that uses it; the state does not change.

namespace truestep::gpu::scape {

using distributed::Scalars;

/// The values from which section 4.2 computes c.
struct Sources {
    Scalars scalars;
    const float* sum; ///< of earlier parts of the gradient, or none
    const float* g;
    const float* e;
    MaskView last; ///< on which m is packed
    const float* m;
};

TRUESTEP_BLOCK float local_at(const Sources& from, Index at) {
    const std::uint64_t word = word_of(from.last, at);
    const float m = has_bit(word, at % word_bits) ? from.m[before(from.last, at, word)] : 0.0F;
    const float g = from.sum == nullptr ? from.g[at] : from.sum[at] + from.g[at];
    return distributed::element::local(from.scalars, m, g, from.e[at]);
}

/// c on the mask, packed, for the coordinates [begin, end), which are not empty. One block a tile,
/// from that of the first one on.
struct Gather {
    struct Arguments {
        Sources from;
        Index size;
        Index begin;
        Index end;
        Index first; ///< where the first of them is in the payload
        MaskView mask;
        float* payload;
    };
    using Shared = SelectedOfTile;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index skipped = before(a.mask, a.begin) - a.first;
        over_selected(block, shared, a.mask, a.begin / tile + block.index(), a.size,
                      [&](Index at, Index packed) {
                          if (at >= a.begin && at < a.end)
                              a.payload[packed - skipped] = local_at(a.from, at);
                      });
    }
};

/// Section 21: the first coordinate of the mask whose c bf16 cannot represent. One block a tile.
struct FirstOverflow {
    struct Arguments {
        Sources from;
        Index size;
        MaskView mask;
        Index* first; ///< d before
    };
    struct Shared {
        SelectedOfTile selected;
        Index first;
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        block.phase([&](int thread) {
            if (thread == 0)
                shared.first = a.size;
        });
        over_selected(block, shared.selected, a.mask, block.index(), a.size, [&](Index at, Index) {
            if (distributed::element::score(local_at(a.from, at)) >= distributed::element::beyond_bf16)
                block.lower(shared.first, at);
        });
        block.phase([&](int thread) {
            if (thread == 0 && shared.first < a.size)
                block.lower(*a.first, shared.first);
        });
    }
};

} // namespace truestep::gpu::scape
