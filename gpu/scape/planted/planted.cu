// Compiles the CUDA kernels of SCAPE's known bugs, such as fused arithmetic and flush to zero.
#include "planted/algorithms.hpp"
#include <truestep/gpu/algorithms/without_barriers.hpp>
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::planted::FusedLocalPass<false>);
TRUESTEP_LAUNCH(scape::planted::FusedLocalPass<true>);
TRUESTEP_LAUNCH(scape::planted::FlushToZero);
TRUESTEP_LAUNCH(scape::planted::PayloadCutOff);
TRUESTEP_LAUNCH(scape::planted::PayloadWithoutRest);
TRUESTEP_LAUNCH(planted::WithoutBarriers<truestep::gpu::scape::SquareSums>);
