#include "algorithms/mask.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::CountWords);
TRUESTEP_LAUNCH(scape::InCommon);
