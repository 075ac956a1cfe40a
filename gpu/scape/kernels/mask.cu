// Compiles the CUDA kernels that count a mask's bits and what two masks have in common.
#include "algorithms/mask.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::CountWords);
TRUESTEP_LAUNCH(scape::InCommon);
