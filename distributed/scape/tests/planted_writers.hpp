#pragma once

#include <string>
#include <vector>

#include "crash_support.hpp"

namespace truestep::distributed::scape::crash {

/// A mistake in the writer of checkpoints, made by a layer that its calls go through: what they come to is
/// what a writer with the mistake would do.
struct Planted {
    std::string name;
    Layer layer;
    std::string found_at; ///< what rank 0 was about to do where the mistake shows first
    std::size_t largest_write = SIZE_MAX;
};

[[nodiscard]] const std::vector<Planted>& planted_writers();

} // namespace truestep::distributed::scape::crash
