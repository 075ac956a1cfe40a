#include "algorithms/meeting.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(gasloc::Drift);
TRUESTEP_LAUNCH(gasloc::Meet);
