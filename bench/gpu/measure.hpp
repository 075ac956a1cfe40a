#pragma once

#include "gpu/figures.hpp"
#include "gpu/options.hpp"

namespace truestep::gpu::bench {

/// Measures everything that the options request, on an available device (availability.hpp). Throws
/// std::runtime_error with CUDA's words.
[[nodiscard]] Report measure(const Options& options);

} // namespace truestep::gpu::bench
