#include "algorithms/gather.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(Gather);
SCAPE_LAUNCH(FirstOverflow);
