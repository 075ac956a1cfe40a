#include "algorithms/code.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(Encode);
TRUESTEP_LAUNCH(DecodeCount);
TRUESTEP_LAUNCH(Decode);
