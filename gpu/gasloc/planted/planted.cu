#include <scape/gpu/launch.cuh>
#include "planted/algorithms.hpp"

SCAPE_LAUNCH(planted::FusedDrift);
