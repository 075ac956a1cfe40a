#include "algorithms/update.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(SquareSums);
SCAPE_LAUNCH(TreeSums);
SCAPE_LAUNCH(Clip);
SCAPE_LAUNCH(Update);
