#pragma once

#include <scape/training/drawing.hpp>

namespace scape::training::support {

/// A page's worth of runs that were never run: three optimizers of three seeds, of which one sends nothing
/// and has a name that HTML would mind, verdicts of every kind and a map with a hole.
[[nodiscard]] TrainingResults sample_results();

} // namespace scape::training::support
