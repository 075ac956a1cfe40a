// Compiles the CUDA kernels that gather c on the coming mask and find values too large to send.
#include "algorithms/gather.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::Gather);
TRUESTEP_LAUNCH(scape::FirstOverflow);
