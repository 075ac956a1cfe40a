#include "algorithms/update.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(SquareSums);
TRUESTEP_LAUNCH(TreeSums);
TRUESTEP_LAUNCH(Clip);
TRUESTEP_LAUNCH(Update);
