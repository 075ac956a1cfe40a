#include "algorithms/meeting.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(Drift);
SCAPE_LAUNCH(Meet);
