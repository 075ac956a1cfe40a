// Compiles the CUDA kernel of a GASLoC known bug: a drift with fused multiply-add.
#include <truestep/gpu/launch.cuh>
#include "planted/algorithms.hpp"

TRUESTEP_LAUNCH(gasloc::planted::FusedDrift);
