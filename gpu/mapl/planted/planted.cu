#include <truestep/gpu/algorithms/unbarred.hpp>
#include <truestep/gpu/launch.cuh>
#include "planted/algorithms.hpp"

TRUESTEP_LAUNCH(planted::Unbarred<truestep::gpu::boundary::SquareSums>);
TRUESTEP_LAUNCH(boundary::planted::AddRowsAtOnce);
