#include "algorithms/gather.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(Gather);
TRUESTEP_LAUNCH(FirstOverflow);
