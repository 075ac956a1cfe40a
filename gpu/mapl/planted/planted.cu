// Compiles the CUDA kernels of two MAPL known bugs: missing barriers, rows added all at once.
#include <truestep/gpu/algorithms/without_barriers.hpp>
#include <truestep/gpu/launch.cuh>
#include "planted/algorithms.hpp"

TRUESTEP_LAUNCH(planted::WithoutBarriers<truestep::gpu::mapl::boundary::SquareSums>);
TRUESTEP_LAUNCH(mapl::boundary::planted::AddRowsAtOnce);
