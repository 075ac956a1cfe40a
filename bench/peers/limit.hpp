#pragma once

#include <string_view>

#include "peers/peer.hpp"

namespace truestep::peers {

/// What a rank cannot do its step without, in bytes: of its algorithm, whoever writes it and however. Of
/// the local ones a step is an H-th of a round.
struct Least {
    double wire = 0;   ///< sent to others, the mean of the ranks
    double memory = 0; ///< read and written
};

/// On the wire: values, each as wide as the kind sends it, and which coordinates they belong to, in as
/// many bits as tell one selection from all others of its size. Agreements, sizes and headers are none.
/// In memory: what is as long as the model, or as a rank's share of it. Vectors on the mask are none, nor
/// is what comes from the wire or goes there, which a card need not take past the memory.
[[nodiscard]] Least least_bytes(std::string_view name, const Setting& setting, int ranks);

/// Seconds that no step can be quicker than.
struct Limit {
    double wire = 0;
    double memory = 0;

    /// Where passes and what travels go on at one time; and where they take turns.
    [[nodiscard]] double larger() const;
    [[nodiscard]] double sum() const { return wire + memory; }
};

/// `rate`: bytes a second of a rank's link, 0 where what it sends costs nothing; `copy`: bytes a second
/// that a rank reads and writes in a plain copy while all ranks copy.
[[nodiscard]] Limit limit_of(const Least& least, double rate, double copy);

} // namespace truestep::peers
