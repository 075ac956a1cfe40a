// Compiles the CUDA kernels of two known bugs of dense training: missing barriers, fused multiply-add.
#include "algorithms/mean.hpp"
#include "planted/algorithms.hpp"
#include <truestep/gpu/algorithms/without_barriers.hpp>
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(planted::WithoutBarriers<truestep::gpu::dense::SquareSums>);
TRUESTEP_LAUNCH(dense::planted::FusedAdam);
