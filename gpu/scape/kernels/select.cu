// Compiles the CUDA kernels that select the top k coordinates of each segment.
#include "algorithms/select.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::Prepare);
TRUESTEP_LAUNCH(scape::Bracket);
TRUESTEP_LAUNCH(scape::Judge);
TRUESTEP_LAUNCH(scape::Digit);
TRUESTEP_LAUNCH(scape::Pick);
TRUESTEP_LAUNCH(scape::TieCount);
TRUESTEP_LAUNCH(scape::Take);
