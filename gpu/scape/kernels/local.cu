#include "algorithms/local.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::FirstRefused);
TRUESTEP_LAUNCH(scape::LocalPass);
TRUESTEP_LAUNCH(scape::WatchingPass);
TRUESTEP_LAUNCH(scape::Extract);
