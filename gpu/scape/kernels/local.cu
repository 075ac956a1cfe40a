#include "algorithms/local.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(FirstRefused);
TRUESTEP_LAUNCH(LocalPass);
TRUESTEP_LAUNCH(WatchingPass);
TRUESTEP_LAUNCH(Extract);
