// Compiles the CUDA kernels that encode and decode the masks that ranks send each other.
#include "algorithms/code.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::Encode);
TRUESTEP_LAUNCH(scape::DecodeCount);
TRUESTEP_LAUNCH(scape::Decode);
