#include "algorithms/mask.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(CountWords);
SCAPE_LAUNCH(InCommon);
