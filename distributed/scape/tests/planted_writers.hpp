#pragma once

#include <string>
#include <vector>

#include "crash_support.hpp"

namespace truestep::distributed::scape::crash {

/// A known bug in the writer of checkpoints, made by a layer that changes its calls: the effect is
/// that of a writer with the bug.
struct Planted {
    std::string name;
    Layer layer;
    std::string found_at; ///< the next operation of rank 0 where the bug shows first
    std::size_t largest_write = SIZE_MAX;
};

[[nodiscard]] const std::vector<Planted>& planted_writers();

} // namespace truestep::distributed::scape::crash
