#include "algorithms/meeting.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(Drift);
TRUESTEP_LAUNCH(Meet);
