#include <truestep/gpu/algorithms/unbarred.hpp>
#include <truestep/gpu/launch.cuh>
#include "planted/algorithms.hpp"

TRUESTEP_LAUNCH(planted::Unbarred<truestep::gpu::mapl::boundary::SquareSums>);
TRUESTEP_LAUNCH(mapl::boundary::planted::AddRowsAtOnce);
