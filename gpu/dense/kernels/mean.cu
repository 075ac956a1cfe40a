// Compiles the CUDA kernels of dense training's mean: sums, fold, norm and clip.
#include "algorithms/mean.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(dense::AddGradient);
TRUESTEP_LAUNCH(dense::FoldParts);
TRUESTEP_LAUNCH(dense::SquareSums);
TRUESTEP_LAUNCH(dense::Scale);
