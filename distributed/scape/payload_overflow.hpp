#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/scape/backend.hpp>

#include "rounded_payload.hpp"
#include "shares.hpp"

namespace truestep::distributed::scape {

/// The first coordinate of the coming mask whose c, computed by gather(begin, end, c), bf16 cannot
/// hold. It works chunk by chunk, so that nothing has to be kept.
template <class Gather>
Refusal first_overflow_of(Index size, const Mask& coming, Shares& shares, const Gather& gather) {
    std::atomic<Index> first{size};
    shares.over_coordinates(size, [&](Index share_begin, Index share_end) {
        std::array<float, Mask::chunk> c; // NOLINT: written before it is read
        for (Index begin = share_begin; begin < share_end && begin < first; begin += Mask::chunk) {
            const Index end = std::min(share_end, begin + Mask::chunk);
            const Index count = coming.offset_of_chunk(end) - coming.offset_of_chunk(begin);
            gather(begin, end, c.data());
            const auto* const found = std::find_if(c.data(), c.data() + count, [](float value) {
                return element::score(value) >= element::beyond_bf16;
            });
            if (found == c.data() + count)
                continue;
            lower(first, coordinate(coming, begin, found - c.data()));
        }
    });
    float c = 0.0F;
    if (first < size)
        gather(first, first + 1, &c);
    return {first, c};
}

} // namespace truestep::distributed::scape
