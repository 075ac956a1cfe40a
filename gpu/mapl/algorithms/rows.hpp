#pragma once

#include <bit>

#include <truestep/gpu/block.hpp>

// What happens to the rows of a micro-batch besides products: ids, rows of anchors, and the form in
// which Z and dZ travel (sections 22 and 23). One block a tile.

namespace truestep::gpu::mapl::boundary {

/// The number of blocks for `size` values.
inline Index tiles_of(Index size) {
    return (size + tile - 1) / tile;
}

/// An infinity and a NaN have all bits of the exponent set.
TRUESTEP_BLOCK bool is_not_finite(float value) {
    return (std::bit_cast<std::uint32_t>(value) & 0x7f80'0000U) == 0x7f80'0000U;
}

/// Calls work(at, row, column) for each of the block's tile of a matrix of `size` values, in one phase.
/// A thread divides once.
template <class Block, class Work>
TRUESTEP_BLOCK void over_matrix(Block& block, Index size, Index columns, const Work& work) {
    const Index begin = block.index() * tile;
    const Index end = least(begin + tile, size);
    const Index further_rows = block.threads() / columns;
    const Index further_columns = block.threads() % columns;
    block.phase([&](int thread) {
        Index row = (begin + thread) / columns;
        Index column = (begin + thread) % columns;
        for (Index at = begin + thread; at < end; at += block.threads()) {
            work(at, row, column);
            row += further_rows;
            column += further_columns;
            if (column >= columns) {
                column -= columns;
                ++row;
            }
        }
    });
}

/// Sets a flag if one of the values is not finite.
struct Check {
    struct Arguments {
        Index size;
        const float* values;
        std::uint32_t* not_finite;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            if (is_not_finite(a.values[at]))
                block.set_bits(*a.not_finite, 1U);
        });
    }
};

/// Rounds to 16 bits, to the nearest, ties to even; and checks the values before and after.
struct PackValues {
    struct Arguments {
        Index size;
        const float* values;
        std::uint16_t* to;
        std::uint32_t* not_finite;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            const std::uint32_t bits = std::bit_cast<std::uint32_t>(a.values[at]);
            const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
            a.to[at] = static_cast<std::uint16_t>(rounded);
            if (is_not_finite(a.values[at]) || (rounded & 0x7f80U) == 0x7f80U)
                block.set_bits(*a.not_finite, 1U);
        });
    }
};

struct WidenValues {
    struct Arguments {
        Index size;
        const std::uint16_t* values;
        float* to;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.size, [&](Index at) {
            a.to[at] = std::bit_cast<float>(static_cast<std::uint32_t>(a.values[at]) << 16U);
        });
    }
};

/// Ids as they travel, lowest byte first.
struct PackIds {
    struct Arguments {
        Index tokens;
        Index each; ///< bytes
        const std::uint32_t* ids;
        std::uint8_t* to;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.tokens * a.each, a.each, [&](Index at, Index token, Index byte) {
            a.to[at] = static_cast<std::uint8_t>(a.ids[token] >> (8U * static_cast<unsigned>(byte)));
        });
    }
};

struct UnpackIds {
    struct Arguments {
        Index tokens;
        Index each;
        const std::uint8_t* from;
        std::uint32_t* ids;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.tokens, [&](Index token) {
            std::uint32_t id = 0;
            for (Index byte = 0; byte < a.each; ++byte)
                id |= static_cast<std::uint32_t>(a.from[token * a.each + byte])
                      << (8U * static_cast<unsigned>(byte));
            a.ids[token] = id;
        });
    }
};

/// E[ids], N x r.
struct GatherRows {
    struct Arguments {
        Index tokens;
        Index rank;
        const std::uint32_t* ids;
        const float* table;
        float* to;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.tokens * a.rank, a.rank, [&](Index at, Index token, Index column) {
            a.to[at] = a.table[static_cast<Index>(a.ids[token]) * a.rank + column];
        });
    }
};

struct AddRowsArguments {
    Index groups; ///< distinct ids
    Index rank;
    const std::uint32_t* ids;    ///< of each group
    const std::uint32_t* begins; ///< of each group in `order`, and the end
    const std::uint32_t* order;  ///< tokens, those of an id one behind the other and ascending
    const float* rows;           ///< of the tokens, N x r
    float* table;
};

/// Adds rows to those of their ids, in the order of the tokens. A thread computes a whole value of
/// the table.
struct AddRows {
    using Arguments = AddRowsArguments;
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.groups * a.rank, a.rank, [&](Index, Index group, Index column) {
            float* const place = a.table + static_cast<Index>(a.ids[group]) * a.rank + column;
            float sum = *place;
            for (Index i = a.begins[group]; i < static_cast<Index>(a.begins[group + 1]); ++i)
                sum += a.rows[static_cast<Index>(a.order[i]) * a.rank + column];
            *place = sum;
        });
    }
};

} // namespace truestep::gpu::mapl::boundary
