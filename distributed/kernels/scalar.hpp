#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <truestep/distributed/kernels.hpp>

#include "table.hpp"

// Coordinates one at a time, for the remainder of a vector. They count from 0 at the first one left
// over; the masks' bits are in one word.

namespace truestep::distributed::host {

inline bool has_bit(std::uint64_t bits, Index index) {
    return ((bits >> static_cast<unsigned>(index)) & 1U) != 0;
}

inline void local_rest(const Scalars& scalars, Index count, const float* g, const float* e, float* kept,
                       std::uint64_t last, const float* m, std::uint64_t current, float* payload) {
    for (Index i = 0; i < count; ++i) {
        const float c = element::local(scalars, has_bit(last, i) ? *m++ : 0.0F, g[i], e[i]);
        if (has_bit(current, i)) {
            *payload++ = c;
            kept[i] = 0.0F;
        } else {
            kept[i] = c;
        }
    }
}

/// The watch that has the word at `begin`, or nothing; drops the watches before it.
inline Watch* watch_at(std::span<Watch>& watches, Index begin) {
    while (!watches.empty() && watches.front().end <= begin)
        watches = watches.subspan(1);
    return !watches.empty() && watches.front().begin <= begin ? watches.data() : nullptr;
}

inline void extract_rest(Index count, float* e, std::uint64_t current, float* payload) {
    for (Index i = 0; i < count; ++i)
        if (has_bit(current, i)) {
            *payload++ = e[i];
            e[i] = 0.0F;
        }
}

/// Visits only the set bits of `current`, so that it also serves words with few of them.
inline void repack_word(std::uint64_t last, const float* m, std::uint64_t current, float* m_on_current) {
    for (; current != 0; current &= current - 1) {
        const std::uint64_t bit = current & (~current + 1);
        *m_on_current++ = (last & bit) != 0 ? m[std::popcount(last & (bit - 1))] : 0.0F;
    }
}

/// False if a parameter has turned non-finite.
inline bool update_rest(const Scalars& scalars, Index count, float* w, std::uint64_t current,
                        const float* u) {
    bool is_finite = true;
    for (Index i = 0; i < count; ++i) {
        w[i] = w[i] * scalars.decay;
        if (has_bit(current, i))
            w[i] = element::update(scalars, w[i], *u++);
        is_finite = is_finite && element::score(w[i]) < 0x7f80'0000U;
    }
    return is_finite;
}

inline Score score_of(float c) {
    return static_cast<Score>(element::score(c));
}

} // namespace truestep::distributed::host
