#pragma once

#include <truestep/training/drawing.hpp>

namespace truestep::training::support {

/// Invented results for a page: three optimizers of three seeds (one sends nothing and has a name
/// that HTML must escape), verdicts of every kind, and a map with a hole.
[[nodiscard]] TrainingResults sample_results();

} // namespace truestep::training::support
