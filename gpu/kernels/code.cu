#include "algorithms/code.hpp"
#include "kernels/launch.cuh"

SCAPE_LAUNCH(Encode);
SCAPE_LAUNCH(DecodeCount);
SCAPE_LAUNCH(Decode);
