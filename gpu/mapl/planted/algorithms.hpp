#pragma once

// Algorithms with a known bug.

#include "algorithms/subspace.hpp"

namespace truestep::gpu::mapl::boundary::planted {

/// Adds each token's row to that of its id, all at once: of rows with the same id only one
/// survives.
struct AddRowsAtOnce {
    using Arguments = AddRowsArguments;
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.groups * a.rank, a.rank, [&](Index, Index group, Index column) {
            float* const place = a.table + static_cast<Index>(a.ids[group]) * a.rank + column;
            const float before = *place;
            for (Index i = a.begins[group]; i < static_cast<Index>(a.begins[group + 1]); ++i)
                *place = before + a.rows[static_cast<Index>(a.order[i]) * a.rank + column];
        });
    }
};

} // namespace truestep::gpu::mapl::boundary::planted
