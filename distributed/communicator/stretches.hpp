#pragma once

#include <cstddef>
#include <vector>

#include <scape/distributed/communicator.hpp>

namespace scape::distributed {

/// Parts that stand one after the other; of each the piece.
inline std::vector<Stretch> stretches_of(Communicator::Sizes sizes, Piece piece = {}) {
    std::vector<Stretch> stretches;
    stretches.reserve(sizes.size());
    std::size_t begin = 0;
    for (const std::size_t size : sizes) {
        stretches.push_back({begin + piece.begin_in(size), piece.size_in(size)});
        begin += size;
    }
    return stretches;
}

} // namespace scape::distributed
