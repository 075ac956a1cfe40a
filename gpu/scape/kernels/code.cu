#include "algorithms/code.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::Encode);
TRUESTEP_LAUNCH(scape::DecodeCount);
TRUESTEP_LAUNCH(scape::Decode);
