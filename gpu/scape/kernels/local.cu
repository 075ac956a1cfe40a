#include "algorithms/local.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(FirstRefused);
SCAPE_LAUNCH(LocalPass);
SCAPE_LAUNCH(WatchingPass);
SCAPE_LAUNCH(Extract);
