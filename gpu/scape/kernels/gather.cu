#include "algorithms/gather.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::Gather);
TRUESTEP_LAUNCH(scape::FirstOverflow);
