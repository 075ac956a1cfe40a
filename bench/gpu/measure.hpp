#pragma once

#include "gpu/figures.hpp"
#include "gpu/options.hpp"

namespace truestep::gpu::bench {

/// Everything that the options ask for, on a device that is there (availability.hpp). Throws
/// std::runtime_error with CUDA's words.
[[nodiscard]] Report measure(const Options& options);

} // namespace truestep::gpu::bench
