#include "algorithms/mask.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(CountWords);
TRUESTEP_LAUNCH(InCommon);
