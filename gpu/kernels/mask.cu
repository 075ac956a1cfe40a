#include "algorithms/mask.hpp"
#include "kernels/launch.cuh"

SCAPE_LAUNCH(Offsets);
SCAPE_LAUNCH(CountWords);
SCAPE_LAUNCH(InCommon);
