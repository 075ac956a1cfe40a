#pragma once

#include <string_view>

#include "peers/peer.hpp"

namespace truestep::peers {

/// The bytes that a rank's step needs at least, for any implementation of the algorithm. For local
/// peers a step is an H-th of a round.
struct LeastBytes {
    double wire = 0;   ///< sent to others, the mean of the ranks
    double memory = 0; ///< read and written
};

/// Wire: values, each as wide as the kind sends it, and which coordinates they belong to, in the
/// bits that distinguish one selection from all others of its size. Agreements, sizes and headers
/// do not count. Memory: vectors as long as the model, or as a rank's share. Vectors on the mask do
/// not count, nor does data from or to the wire, which a card need not move through memory.
[[nodiscard]] LeastBytes least_bytes(std::string_view name, const Setting& setting, int ranks);

/// Lower limits of a step's time, in seconds.
struct Limit {
    double wire = 0;
    double memory = 0;

    /// larger(): memory and wire work at the same time. sum(): they take turns.
    [[nodiscard]] double larger() const;
    [[nodiscard]] double sum() const { return wire + memory; }
};

/// `rate`: bytes per second of a rank's link, 0 if sending costs nothing. `copy`: bytes per second
/// that a rank reads and writes in a plain copy while all ranks copy.
[[nodiscard]] Limit limit_of(const LeastBytes& least, double rate, double copy);

} // namespace truestep::peers
