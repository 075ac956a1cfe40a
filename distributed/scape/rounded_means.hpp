#pragma once

#include <algorithm>
#include <array>

#include <truestep/distributed/kernels.hpp>
#include <truestep/problem/problem.hpp>

#include "rounded_payload.hpp"
#include "shares.hpp"

namespace truestep::distributed::scape {

/// Means that their owner rounds (section 21), after all have arrived. Until then the own ones are
/// the unrounded results of the fold, so that no state changes before the step is taken.
struct MeansThatCame {
    const RoundedPayload& rounded;
    const RoundedPayload::Bytes& sent; ///< as they have travelled
    const float* own_means;            ///< before rounding, packed likewise
    problem::Range own;                ///< coordinates of this rank

    /// Moves the means of the coordinates `where`, which lie from the value `first` on, to their
    /// places in `moment`; adds the rounding errors of this rank's means, times P, to e.
    void take(Shares& shares, const Scalars& scalars, const Mask& mask, problem::Range where, Index first,
              float* moment, float* e) const {
        const Index before = mask.offset(where.begin) - first;
        shares.share(where.size(), Mask::chunk, [&](Index share_begin, Index share_end) {
            std::array<float, Mask::chunk> come; // NOLINT: written before it is read
            std::array<float, Mask::chunk> lost; // NOLINT: the same
            for (Index from = share_begin; from < share_end; from += Mask::chunk) {
                const Index begin = where.begin + from;
                const Index end = where.begin + std::min(share_end, from + Mask::chunk);
                const Index to = mask.offset(begin);
                const Index at = to - before;
                const Index count = mask.offset(end) - to;
                rounded.read(sent, at, count, come.data());
                const problem::Range mine{std::max(begin, own.begin), std::min(end, own.end)};
                if (mine.begin < mine.end) {
                    const Index skipped = mask.offset(mine.begin) - to;
                    const Index kept = mask.offset(mine.end) - mask.offset(mine.begin);
                    for (Index i = 0; i < kept; ++i)
                        lost[static_cast<std::size_t>(i)] =
                            (own_means[at + skipped + i] - come[static_cast<std::size_t>(skipped + i)]) *
                            scalars.workers;
                    host::add_to(mine.begin, mine.end, lost.data(), mask, e);
                }
                std::copy_n(come.data(), count, moment + to);
            }
        });
    }
};

} // namespace truestep::distributed::scape
