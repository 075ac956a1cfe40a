#include "algorithms/local.hpp"
#include "kernels/launch.cuh"

SCAPE_LAUNCH(FirstRefused);
SCAPE_LAUNCH(LocalPass);
SCAPE_LAUNCH(Extract);
