#pragma once

#include <truestep/training/drawing.hpp>

namespace truestep::training::support {

/// A page's worth of runs that were never run: three optimizers of three seeds, of which one sends nothing
/// and has a name that HTML would mind, verdicts of every kind and a map with a hole.
[[nodiscard]] TrainingResults sample_results();

} // namespace truestep::training::support
