#include "algorithms/code.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(Encode);
SCAPE_LAUNCH(DecodeCount);
SCAPE_LAUNCH(Decode);
