#pragma once

#include <algorithm>
#include <array>

#include <truestep/distributed/aligned.hpp>
#include <truestep/distributed/kernels.hpp>

namespace truestep::distributed::scape {

/// Repacks m from the last mask to S_t in place: chunk by chunk, each through a copy in the cache.
inline void move_moment(const Mask& last, const Mask& current, AlignedFloats& m) {
    const auto count_of = [](const Mask& mask) { return static_cast<std::size_t>(mask.selected()); };
    const Index size = current.size();
    m.reserve(count_of(current));
    m.resize(std::max(count_of(last), count_of(current)));
    std::array<float, Mask::chunk> values; // NOLINT: written before it is read
    const auto move_chunk = [&](Index chunk) {
        const Index begin = chunk * Mask::chunk;
        const Index end = std::min(size, begin + Mask::chunk);
        const Index from = last.offset_of_chunk(begin);
        std::copy_n(m.data() + from, last.offset_of_chunk(end) - from, values.data());
        host::repack(begin, end, last, values.data(), current, m.data() + current.offset_of_chunk(begin));
    };
    // Where the values before some chunk become more, the chunk before it waits until that one has
    // moved.
    const Index chunks = (size + Mask::chunk - 1) / Mask::chunk;
    for (Index first = 0; first < chunks;) {
        Index next = first + 1;
        while (next < chunks &&
               current.offset_of_chunk(next * Mask::chunk) > last.offset_of_chunk(next * Mask::chunk))
            ++next;
        for (Index chunk = next; chunk-- > first;)
            move_chunk(chunk);
        first = next;
    }
    m.resize(count_of(current));
    if (m.capacity() / 2 > m.size())
        m.shrink_to_fit();
}

} // namespace truestep::distributed::scape
