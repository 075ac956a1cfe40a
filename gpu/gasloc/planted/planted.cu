#include <truestep/gpu/launch.cuh>
#include "planted/algorithms.hpp"

TRUESTEP_LAUNCH(gasloc::planted::FusedDrift);
